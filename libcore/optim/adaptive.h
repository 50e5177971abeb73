#pragma once
// RMSprop, Adagrad and Adadelta. As torch.optim's classes of these names.
// Thread safety: as Optimizer. Use: core::RMSprop optimizer(model.parameters(), {.lr = 1e-3, .momentum = 0.9});

#include <type_traits>

#include "libcore/optim/optimizer.h"

namespace core {

struct RMSpropOptions {
  Scalar lr = 1e-2;
  Scalar alpha = 0.99;
  Scalar eps = 1e-8;
  Scalar weight_decay = 0;
  Scalar momentum = 0;
  bool centered = false;
  bool maximize = false;
};

class RMSprop final : public Optimizer {
 public:
  explicit RMSprop(const std::vector<Tensor>& params, const RMSpropOptions& options = {})
      : RMSprop(detail::one_group(params), options) {}
  explicit RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> RMSprop(const std::vector<Tensor>& params, Number lr)
      : RMSprop(params, RMSpropOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct AdagradOptions {
  Scalar lr = 1e-2;
  Scalar lr_decay = 0;
  Scalar weight_decay = 0;
  Scalar initial_accumulator_value = 0;
  Scalar eps = 1e-10;
  bool maximize = false;
};

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const std::vector<Tensor>& params, const AdagradOptions& options = {})
      : Adagrad(detail::one_group(params), options) {}
  explicit Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Adagrad(const std::vector<Tensor>& params, Number lr)
      : Adagrad(params, AdagradOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct AdadeltaOptions {
  Scalar lr = 1.0;
  Scalar rho = 0.9;
  Scalar eps = 1e-6;
  Scalar weight_decay = 0;
  bool maximize = false;
};

class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const std::vector<Tensor>& params, const AdadeltaOptions& options = {})
      : Adadelta(detail::one_group(params), options) {}
  explicit Adadelta(std::vector<ParamGroup> groups, const AdadeltaOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Adadelta(const std::vector<Tensor>& params, Number lr)
      : Adadelta(params, AdadeltaOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core

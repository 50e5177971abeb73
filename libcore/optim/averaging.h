#pragma once
// Adamax, NAdam, RAdam, ASGD, Rprop. As torch.optim's classes of the same names: same values, state and options.
// Thread safety: as Optimizer. Use: core::NAdam optimizer(model.parameters(), {.lr = 1e-3});

#include <type_traits>
#include <utility>

#include "libcore/optim/optimizer.h"

namespace core {

struct AdamaxOptions {
  Scalar lr = 2e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  Scalar weight_decay = 0;
  bool maximize = false;
};

/// Adam by the largest gradient so far instead of the mean square.
class Adamax final : public Optimizer {
 public:
  explicit Adamax(const std::vector<Tensor>& params, const AdamaxOptions& options = {})
      : Adamax(detail::one_group(params), options) {}
  explicit Adamax(std::vector<ParamGroup> groups, const AdamaxOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Adamax(const std::vector<Tensor>& params, Number lr)
      : Adamax(params, AdamaxOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct NAdamOptions {
  Scalar lr = 2e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  Scalar weight_decay = 0;
  Scalar momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
};

/// Adam with Nesterov's momentum.
class NAdam final : public Optimizer {
 public:
  explicit NAdam(const std::vector<Tensor>& params, const NAdamOptions& options = {})
      : NAdam(detail::one_group(params), options) {}
  explicit NAdam(std::vector<ParamGroup> groups, const NAdamOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> NAdam(const std::vector<Tensor>& params, Number lr)
      : NAdam(params, NAdamOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct RAdamOptions {
  Scalar lr = 1e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  Scalar weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
};

/// Adam whose adaptive rate waits until its variance is known.
class RAdam final : public Optimizer {
 public:
  explicit RAdam(const std::vector<Tensor>& params, const RAdamOptions& options = {})
      : RAdam(detail::one_group(params), options) {}
  explicit RAdam(std::vector<ParamGroup> groups, const RAdamOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> RAdam(const std::vector<Tensor>& params, Number lr)
      : RAdam(params, RAdamOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct ASGDOptions {
  Scalar lr = 1e-2;
  Scalar lambd = 1e-4;
  Scalar alpha = 0.75;
  Scalar t0 = 1e6;  ///< the step from which parameters are averaged
  Scalar weight_decay = 0;
  bool maximize = false;
};

/// Averaged stochastic gradient descent.
class ASGD final : public Optimizer {
 public:
  explicit ASGD(const std::vector<Tensor>& params, const ASGDOptions& options = {})
      : ASGD(detail::one_group(params), options) {}
  explicit ASGD(std::vector<ParamGroup> groups, const ASGDOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> ASGD(const std::vector<Tensor>& params, Number lr)
      : ASGD(params, ASGDOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

struct RpropOptions {
  Scalar lr = 1e-2;
  std::pair<Scalar, Scalar> etas = {0.5, 1.2};
  std::pair<Scalar, Scalar> step_sizes = {1e-6, 50};
  bool maximize = false;
};

/// Steps by the gradient's sign; each element's step grows while the sign stays.
class Rprop final : public Optimizer {
 public:
  explicit Rprop(const std::vector<Tensor>& params, const RpropOptions& options = {})
      : Rprop(detail::one_group(params), options) {}
  explicit Rprop(std::vector<ParamGroup> groups, const RpropOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Rprop(const std::vector<Tensor>& params, Number lr)
      : Rprop(params, RpropOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core

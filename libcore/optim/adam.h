#pragma once
// Adam and AdamW. As torch.optim.Adam and torch.optim.AdamW.
// Thread safety: as Optimizer. Use: core::Adam optimizer(model.parameters(), {.lr = 1e-3});
// Source: Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.

#include <type_traits>
#include <utility>

#include "libcore/optim/detail/device_rates.h"
#include "libcore/optim/optimizer.h"

namespace core {

struct AdamOptions {
  Scalar lr = 1e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  Scalar weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  bool decoupled_weight_decay = false;  ///< AdamW
  /// Counts its steps and reads its learning rate on the device, so that a CUDA graph can hold a step.
  bool capturable = false;
};

class Adam : public Optimizer {
 public:
  /// Errors: Error(value) "Invalid beta parameter at index 0: 1.0" and its like.
  explicit Adam(const std::vector<Tensor>& params, const AdamOptions& options = {})
      : Adam(detail::one_group(params), options) {}
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {})
      : Adam("Adam", std::move(groups), options) {}
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Adam(const std::vector<Tensor>& params, Number lr)
      : Adam(params, AdamOptions{.lr = lr}) {}

 protected:
  Adam(std::string name, std::vector<ParamGroup> groups, const AdamOptions& options);

 public:
  /// Where it is capturable.
  bool follows_rate(const ParamGroup& group) const override;

 private:
  void update(const ParamGroup& group) override;
  detail::DeviceRates rates_;
};

struct AdamWOptions {
  Scalar lr = 1e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  Scalar weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
  bool capturable = false;  ///< as Adam's
};

/// Adam whose weight decay shrinks the parameters instead of joining the gradient.
class AdamW final : public Adam {
 public:
  explicit AdamW(const std::vector<Tensor>& params, const AdamWOptions& options = {})
      : AdamW(detail::one_group(params), options) {}
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> AdamW(const std::vector<Tensor>& params, Number lr)
      : AdamW(params, AdamWOptions{.lr = lr}) {}
};

}  // namespace core

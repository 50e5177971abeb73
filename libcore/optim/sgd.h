#pragma once
// SGD with momentum, Nesterov's form and weight decay. As torch.optim.SGD. A step that is recorded as a CUDA graph
// reads its learning rate at each replay. Thread safety: as Optimizer. Use: core::SGD optimizer(model.parameters(),
// {.lr = 0.1, .momentum = 0.9});

#include <type_traits>

#include "libcore/optim/detail/device_rates.h"
#include "libcore/optim/optimizer.h"

namespace core {

struct SGDOptions {
  Scalar lr = 1e-3;
  Scalar momentum = 0;
  Scalar dampening = 0;
  Scalar weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

class SGD final : public Optimizer {
 public:
  /// Errors: Error(value) "Invalid momentum value: -1" and its like.
  explicit SGD(const std::vector<Tensor>& params, const SGDOptions& options = {})
      : SGD(detail::one_group(params), options) {}
  /// Groups of parameters, each with options of its own: {{.params = a, .options = {{"lr", 0.01}}}, {.params = b}}.
  explicit SGD(std::vector<ParamGroup> groups, const SGDOptions& options = {});
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> SGD(const std::vector<Tensor>& params, Number lr)
      : SGD(params, SGDOptions{.lr = lr}) {}

  bool follows_rate(const ParamGroup& group) const override;

 private:
  void update(const ParamGroup& group) override;

  detail::DeviceRates rates_;
  bool records_numbers_ = false;  // a parameter that no kernel updates was part of a recorded step
};

}  // namespace core

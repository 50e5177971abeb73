#include "libcore/optim/grad_scaler.h"

#include <cmath>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

using detail::fail;

Tensor number_on(const Device& device, float value) {
  return full({}, static_cast<double>(value), {.dtype = DType::f32, .device = device});
}

/// The numbers of a gradient; of a sparse one those that it holds.
Tensor numbers_of(const Tensor& grad) {
  return grad.is_sparse() ? detail::parts_of(grad).values : grad;
}

/// Multiplies the gradients; 1 for each device where one is infinite or NaN.
std::vector<Tensor> unscale(const Optimizer& optimizer, float inverse) {
  const NoGradGuard no_history;
  std::vector<Tensor> found, factors;
  const auto on_device = [&](const Device& device) {
    std::size_t i = 0;
    while (i < factors.size() && factors[i].device() != device) ++i;
    if (i == factors.size()) {
      factors.push_back(number_on(device, inverse));
      found.push_back(number_on(device, 0));
    }
    return i;
  };
  for (const ParamGroup& group : optimizer.param_groups()) {
    for (const Tensor& param : group.params) {
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      if (grad.dtype() == DType::f16) fail("Attempting to unscale FP16 gradients.", ErrorCode::value);
      const Tensor numbers = numbers_of(grad);
      const std::size_t i = on_device(numbers.device());
      found[i] = maximum(found[i], any(logical_not(isfinite(numbers))).to(DType::f32));
      numbers.mul_(factors[i]);
    }
  }
  return found;
}

}  // namespace

GradScaler::GradScaler(std::string_view device_type, const Options& options)
    : options_(options), enabled_(options.enabled), scale_(static_cast<float>(options.init_scale)) {
  if (enabled_ && device_type == "cuda" && !cuda::is_available()) {
    warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.");
    enabled_ = false;
  }
  if (!enabled_) return;
  if (options.growth_factor <= 1) fail("The growth factor must be > 1.0.", ErrorCode::assertion);
  if (options.backoff_factor >= 1) fail("The backoff factor must be < 1.0.", ErrorCode::assertion);
}

Tensor GradScaler::scale(const Tensor& output) {
  if (!enabled_) return output;
  was_used_ = true;
  return output * number_on(output.device(), scale_);
}

std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> scaled;
  for (const Tensor& output : outputs) scaled.push_back(scale(output));
  return scaled;
}

void GradScaler::check_was_used(const char* function) const {
  if (was_used_) return;
  fail(std::string("Attempted ") + function +
           " but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier in "
           "the iteration.",
       ErrorCode::assertion);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!enabled_) return;
  check_was_used("unscale_");
  PerOptimizer& state = optimizers_[&optimizer];
  if (state.stage == Stage::unscaled) {
    fail("unscale_() has already been called on this optimizer since the last update().");
  }
  if (state.stage == Stage::stepped) fail("unscale_() is being called after step().");
  state.found_inf = unscale(optimizer, static_cast<float>(1 / static_cast<double>(scale_)));
  state.is_bad.reset();
  state.stage = Stage::unscaled;
}

bool GradScaler::is_bad(PerOptimizer& state) const {
  if (state.is_bad) return *state.is_bad;
  bool bad = false;
  for (const Tensor& found : state.found_inf) bad = found.item<float>() != 0 || bad;
  state.is_bad = bad;
  return bad;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!enabled_) {
    optimizer.step();
    return true;
  }
  check_was_used("step");
  PerOptimizer& state = optimizers_[&optimizer];
  if (state.stage == Stage::stepped) fail("step() has already been called since the last update().");
  if (state.stage == Stage::ready) unscale_(optimizer);
  if (state.found_inf.empty()) fail("No inf checks were recorded for this optimizer.", ErrorCode::assertion);
  const bool good = !is_bad(state);
  if (good) optimizer.step();
  state.stage = Stage::stepped;
  return good;
}

/// In f32, as PyTorch's; a scale that would be infinite stays.
void GradScaler::grow(bool found_inf) {
  if (found_inf) {
    scale_ = static_cast<float>(static_cast<double>(scale_) * options_.backoff_factor);
    growth_tracker_ = 0;
    return;
  }
  if (++growth_tracker_ != options_.growth_interval) return;
  const auto larger = static_cast<float>(static_cast<double>(scale_) * options_.growth_factor);
  if (std::isfinite(larger)) scale_ = larger;
  growth_tracker_ = 0;
}

void GradScaler::update() {
  if (!enabled_) return;
  check_was_used("update");
  bool any_check = false, found_inf = false;
  for (auto& [optimizer, state] : optimizers_) {
    any_check = any_check || !state.found_inf.empty();
    found_inf = is_bad(state) || found_inf;
  }
  if (!any_check) fail("No inf checks were recorded prior to update.", ErrorCode::assertion);
  grow(found_inf);
  optimizers_.clear();
}

void GradScaler::update(double new_scale) {
  if (!enabled_) return;
  check_was_used("update");
  scale_ = static_cast<float>(new_scale);
  optimizers_.clear();
}

void GradScaler::update(const Tensor& new_scale) {
  if (!enabled_) return;
  check_was_used("update");
  if (new_scale.numel() != 1 || new_scale.requires_grad()) {
    fail(
        "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
        "requires_grad=False.",
        ErrorCode::assertion);
  }
  if (new_scale.dim() > 0) {
    fail("output with shape [] doesn't match the broadcast shape " + to_list(new_scale.sizes()));
  }
  update(new_scale.item<double>());
}

OptionMap GradScaler::state_dict() const {
  if (!enabled_) return {};
  return {{"scale", Scalar(get_scale())},
          {"growth_factor", Scalar(options_.growth_factor)},
          {"backoff_factor", Scalar(options_.backoff_factor)},
          {"growth_interval", Scalar(options_.growth_interval)},
          {"_growth_tracker", Scalar(growth_tracker_)}};
}

void GradScaler::load_state_dict(const OptionMap& state) {
  if (!enabled_) return;
  if (state.items().empty()) {
    fail("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.");
  }
  const GradScalerOptions loaded{.growth_factor = state.number("growth_factor"),
                                 .backoff_factor = state.number("backoff_factor"),
                                 .growth_interval = state.integer("growth_interval")};
  const auto scale = static_cast<float>(state.number("scale"));
  growth_tracker_ = state.integer("_growth_tracker");
  scale_ = scale;
  options_ = loaded;
}

}  // namespace core

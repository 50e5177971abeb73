#include "libcore/optim/host_array.h"

namespace core::detail {

Tensor find_state(const ParamState& state, std::string_view name) {
  for (const auto& [key, value] : state) {
    if (key == name) return value;
  }
  return {};
}

Tensor state_tensor(ParamState& state, std::string_view name, const Tensor& param) {
  Tensor found = find_state(state, name);
  if (found.defined()) return found;
  return state.emplace_back(name, zeros_like(param.detach())).second;
}

Tensor new_step() {
  DType dtype = default_dtype() == DType::f64 ? DType::f64 : DType::f32;
  return zeros({}, {.dtype = dtype, .device = Device()});
}

double count_step(ParamState& state) {
  Tensor step = find_state(state, "step");
  if (!step.defined()) step = state.emplace_back("step", new_step()).second;
  double value = step.item<double>() + 1;
  step.fill_(value);
  return value;
}

}  // namespace core::detail

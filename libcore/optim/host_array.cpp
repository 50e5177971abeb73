#include "libcore/optim/host_array.h"

#include "libcore/backend/cuda_graph.h"
#include "libcore/base/error.h"

namespace core::detail {

const Tensor& find_state(const ParamState& state, std::string_view name) {
  static const Tensor kNone;
  for (const auto& [key, value] : state) {
    if (key == name) return value;
  }
  return kNone;
}

const Tensor& state_tensor(ParamState& state, std::string_view name, const Tensor& param) {
  const Tensor& found = find_state(state, name);
  if (found.defined()) return found;
  return state.emplace_back(name, zeros_like(param.detach())).second;
}

Tensor new_step() {
  DType dtype = default_dtype() == DType::f64 ? DType::f64 : DType::f32;
  return zeros({}, {.dtype = dtype, .device = Device()});
}

const Tensor& device_step(ParamState& state, const Tensor& param) {
  for (auto& [key, value] : state) {
    if (key != "step") continue;
    if (value.device() != param.device() || value.dtype() != DType::f32) value = value.to(param.device(), DType::f32);
    return value;
  }
  return state.emplace_back("step", zeros({}, {.dtype = DType::f32, .device = param.device()})).second;
}

double count_step(ParamState& state) {
  if (cuda::is_current_stream_capturing()) {
    throw Error(ErrorCode::unsupported,
                "this optimizer counts its steps on the host, which a captured graph cannot repeat; SGD and Muon, and "
                "Adam and AdamW with capturable, can be captured");
  }
  const Tensor& found = find_state(state, "step");
  const Tensor& step = found.defined() ? found : state.emplace_back("step", new_step()).second;
  if (step.dtype() == DType::f32 && step.device().is_cpu() && step.numel() == 1) {
    float& count = *static_cast<float*>(const_cast<void*>(step.raw_data()));
    count = static_cast<float>(static_cast<double>(count) + 1);
    step.impl()->bump_version();
    return static_cast<double>(count);
  }
  double value = step.item<double>() + 1;
  step.fill_(value);
  return value;
}

}  // namespace core::detail

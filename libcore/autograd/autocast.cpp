#include "libcore/autograd/autocast.h"

#include <string>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"

namespace core {
namespace {

using detail::autocast_mode;
using detail::AutocastMode;

/// True for CUDA devices, false for the CPU.
bool is_cuda(std::string_view device_type) {
  const Device device{std::string(device_type)};
  if (!device.is_cpu() && !device.is_cuda()) detail::fail("unsupported scalarType");
  return device.is_cuda();
}

/// Whether the device can do it; warns where it cannot.
bool can_autocast(bool cuda, DType dtype) {
  if (cuda) {
    if (cuda::is_available()) return true;
    warn("CUDA is not available or torch_xla is imported. Disabling autocast.");
    return false;
  }
  if (dtype == DType::bf16 || dtype == DType::f16) return true;
  warn(
      "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only supports dtypes "
      "of torch.bfloat16, torch.float16 currently.");
  return false;
}

}  // namespace

detail::AutocastModeGuard::AutocastModeGuard(const AutocastMode& mode) : before_(autocast_mode) {
  autocast_mode = mode;
  autocast_mode.depth = before_.depth + 1;
  autocast_mode.suspended = false;
}

detail::AutocastModeGuard::~AutocastModeGuard() {
  autocast_mode = before_;
  if (before_.depth == 0) clear_autocast_cache();
}

autocast::autocast(std::string_view device_type, const AutocastOptions& options) : before_(autocast_mode) {
  const bool cuda = is_cuda(device_type);
  AutocastMode mode = before_;
  DType& dtype = cuda ? mode.cuda_dtype : mode.cpu_dtype;
  dtype = options.dtype.value_or(dtype);
  (cuda ? mode.cuda : mode.cpu) = options.enabled && can_autocast(cuda, dtype);
  mode.cache_enabled = options.cache_enabled.value_or(mode.cache_enabled);
  ++mode.depth;
  autocast_mode = mode;
}

autocast::~autocast() {
  autocast_mode = before_;
  if (before_.depth == 0) clear_autocast_cache();
}

bool is_autocast_enabled(std::string_view device_type) {
  return is_cuda(device_type) ? autocast_mode.cuda : autocast_mode.cpu;
}
DType get_autocast_dtype(std::string_view device_type) {
  return is_cuda(device_type) ? autocast_mode.cuda_dtype : autocast_mode.cpu_dtype;
}
bool is_autocast_cache_enabled() {
  return autocast_mode.cache_enabled;
}
void set_autocast_enabled(std::string_view device_type, bool enabled) {
  (is_cuda(device_type) ? autocast_mode.cuda : autocast_mode.cpu) = enabled;
}
void set_autocast_dtype(std::string_view device_type, DType dtype) {
  (is_cuda(device_type) ? autocast_mode.cuda_dtype : autocast_mode.cpu_dtype) = dtype;
}
void set_autocast_cache_enabled(bool enabled) {
  autocast_mode.cache_enabled = enabled;
}

}  // namespace core

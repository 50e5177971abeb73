#include "libcore/parallel/device_id.h"

#include <cstdlib>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"

namespace core::detail {
namespace {

std::string visible_devices_text() {
  int count = cuda::device_count();
  std::string text = std::to_string(count) + " CUDA device" + (count == 1 ? "" : "s") + " visible (";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "cuda:" : ", cuda:") + std::to_string(i);
  text += ")";
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    text += "; CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "'";
  return text;
}

}  // namespace

Device checked_gpu(const DeviceId& id) {
  if (id.device().is_cpu()) throw Error(ErrorCode::value, "Expected a non cpu device, but got: cpu");
  if (id.device().has_index() && id.device().index() >= cuda::device_count()) {
    throw Error(ErrorCode::assertion,
                "Invalid device id: " + id.device().str() + " is not available: " + visible_devices_text());
  }
  return resolve(id.device());
}

std::vector<Device> checked_gpus(const std::vector<DeviceId>& ids) {
  std::vector<Device> devices;
  for (const DeviceId& id : ids) devices.push_back(checked_gpu(id));
  return devices;
}

Device checked_output(const DeviceId& id, CpuOutput cpu) {
  if (id.is_minus_one()) {
    warn(
        "Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., \"cpu\".");
    return {};
  }
  if (id.device().is_cpu() && cpu == CpuOutput::allowed) return {};
  return checked_gpu(id);
}

}  // namespace core::detail

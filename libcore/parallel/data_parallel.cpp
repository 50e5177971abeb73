#include "libcore/parallel/data_parallel.h"

#include <algorithm>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"

namespace core {

DeviceId::DeviceId(int ordinal) : device_(ordinal < 0 ? Device() : Device(DeviceType::cuda, ordinal)) {
  if (ordinal >= 0) return;
  warn("Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., \"cpu\".");
}

namespace detail {
namespace {

/// "cuda" as "cuda:0"; the CPU is refused.
Device checked_gpu(const DeviceId& id) {
  if (id.device().is_cpu()) throw Error(ErrorCode::value, "Expected a non cpu device, but got: cpu");
  return resolve(id.device());
}

std::vector<Device> chosen_devices(const DataParallelOptions& options) {
  std::vector<Device> devices;
  if (options.device_ids) {
    for (const DeviceId& id : *options.device_ids) devices.push_back(checked_gpu(id));
  } else {
    for (int i = 0; i < cuda::device_count(); ++i) devices.emplace_back(DeviceType::cuda, i);
  }
  if (devices.empty()) throw Error(ErrorCode::runtime, "no available devices were found");
  return devices;
}

}  // namespace

ParallelPlan make_parallel_plan(const DataParallelOptions& options) {
  ParallelPlan plan;
  plan.dim = options.dim;
  if (!cuda::is_available()) return plan;
  plan.devices = chosen_devices(options);
  plan.output = options.output_device ? resolve(options.output_device->device()) : plan.devices[0];
  return plan;
}

void check_balance(const std::vector<Device>& devices) {
  if (devices.size() < 2) return;
  auto memory = [](Device device) { return cuda::device_info(device.index()).total_memory; };
  auto less = [&](Device a, Device b) { return memory(a) < memory(b); };
  auto [smallest, largest] = std::minmax_element(devices.begin(), devices.end(), less);
  if (static_cast<double>(memory(*smallest)) >= 0.75 * static_cast<double>(memory(*largest))) return;
  warn("\n    There is an imbalance between your GPUs. You may want to exclude GPU " +
       std::to_string(smallest->index()) + " which\n    has less than 75% of the memory or cores of GPU " +
       std::to_string(largest->index()) +
       ". You can do so by setting\n    the device_ids argument to DataParallel, or by setting the "
       "CUDA_VISIBLE_DEVICES\n    environment variable.");
}

void check_on_first_device(Module& module, const ParallelPlan& plan) {
  for (const TensorSlot& slot : module.tensor_slots()) {
    if (!slot.tensor->defined() || slot.tensor->device() == plan.devices[0]) continue;
    throw Error(ErrorCode::runtime,
                "module must have its parameters and buffers on device " + plan.devices[0].str() +
                    " (device_ids[0]) but found one of them on device: " + slot.tensor->device().str());
  }
}

}  // namespace detail
}  // namespace core

#include "libcore/parallel/data_parallel.h"

#include <algorithm>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"

namespace core {

namespace detail {
namespace {

std::vector<Device> chosen_devices(const DataParallelOptions& options) {
  std::vector<Device> devices;
  if (options.device_ids) {
    devices = checked_gpus(*options.device_ids);
  } else {
    for (int i = 0; i < cuda::device_count(); ++i) devices.emplace_back(DeviceType::cuda, i);
  }
  if (devices.empty()) throw Error(ErrorCode::runtime, "no available devices were found");
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) == device) continue;
    throw Error(ErrorCode::value, "device_ids: " + device->str() + " is given twice; a device runs one replica");
  }
  return devices;
}

/// True after warning that a quantity of one device is less than three quarters of another's.
bool warn_of_imbalance(const std::vector<Device>& devices, double (*quantity)(const DeviceInfo& info)) {
  auto of = [&](Device device) { return quantity(cuda::device_info(device.index())); };
  auto less = [&](Device a, Device b) { return of(a) < of(b); };
  Device smallest = *std::min_element(devices.begin(), devices.end(), less);
  Device largest = *std::max_element(devices.begin(), devices.end(), less);
  if (of(smallest) >= 0.75 * of(largest)) return false;
  warn("\n    There is an imbalance between your GPUs. You may want to exclude GPU " +
       std::to_string(smallest.index()) + " which\n    has less than 75% of the memory or cores of GPU " +
       std::to_string(largest.index()) +
       ". You can do so by setting\n    the device_ids argument to DataParallel, or by setting the "
       "CUDA_VISIBLE_DEVICES\n    environment variable.");
  return true;
}

}  // namespace

ParallelPlan make_parallel_plan(const DataParallelOptions& options) {
  ParallelPlan plan;
  plan.dim = options.dim;
  if (!cuda::is_available()) return plan;
  plan.devices = chosen_devices(options);
  plan.output = options.output_device ? checked_output(*options.output_device, CpuOutput::refused) : plan.devices[0];
  return plan;
}

void check_balance(const std::vector<Device>& devices) {
  if (devices.empty()) return;
  if (warn_of_imbalance(devices, [](const DeviceInfo& info) { return static_cast<double>(info.total_memory); })) return;
  warn_of_imbalance(devices, [](const DeviceInfo& info) { return static_cast<double>(info.multiprocessors); });
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

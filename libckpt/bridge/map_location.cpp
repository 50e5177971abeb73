#include "libckpt/bridge/map_location.h"

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Device;
using core::Error;
using core::ErrorCode;

[[noreturn]] void throw_unknown(std::string_view tag) {
  throw Error(ErrorCode::device,
              "don't know how to restore data location of torch.storage.UntypedStorage (tagged with " +
                  core::printable(tag) + ")");
}

/// The device with its index, once it is known to be there. Texts: torch.load of PyTorch 2.15.
Device checked_cuda(Device device) {
  if (!core::cuda::is_available()) {
    throw Error(
        ErrorCode::device,
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
        "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
        "storages to the CPU.");
  }
  int index = device.has_index() ? device.index() : core::cuda::current_device();
  if (index >= core::cuda::device_count()) {
    throw Error(ErrorCode::device, "Attempting to deserialize object on CUDA device " + std::to_string(index) +
                                       " but torch.cuda.device_count() is " +
                                       std::to_string(core::cuda::device_count()) +
                                       ". Please use torch.load with map_location to map your storages to an existing "
                                       "device.");
  }
  return Device(core::DeviceType::cuda, index);
}

}  // namespace

std::string MapLocation::target(std::string_view tag) const {
  if (!to_.empty()) return to_;
  if (function_) {
    std::string chosen = function_(tag);
    return chosen.empty() ? std::string(tag) : chosen;
  }
  auto found = table_.find(std::string(tag));
  return found == table_.end() ? std::string(tag) : found->second;
}

Device MapLocation::device(std::string_view tag) const {
  std::string target_tag = target(tag);
  auto device = core::try_parse_device(target_tag);
  if (!device) throw_unknown(target_tag);
  if (device->is_cpu()) return Device();
  if (device->is_cuda()) return checked_cuda(*device);
  if (device->is_meta()) return *device;
  throw_unknown(target_tag);
}

}  // namespace ckpt

#pragma once
// DeviceId: how functions over several devices are told a device: "cuda:1", 1 or a Device.
// Thread safety: a plain value. Use: core::DataParallel model(net, {.device_ids = {{0, "cuda:1"}}});

#include <string>
#include <vector>

#include "libcore/base/device.h"

namespace core {

/// 'cuda' without an index is the current one. -1 is the CPU, allowed for outputs alone (deprecated, as in PyTorch).
class DeviceId {
 public:
  DeviceId(int ordinal)  // NOLINT(google-explicit-constructor): ids are numbers or devices, as in PyTorch
      : device_(ordinal < 0 ? Device() : Device(DeviceType::cuda, ordinal)), is_minus_one_(ordinal < 0) {}
  DeviceId(Device device) : device_(device) {}          // NOLINT(google-explicit-constructor)
  DeviceId(const char* text) : device_(text) {}         // NOLINT(google-explicit-constructor)
  DeviceId(const std::string& text) : device_(text) {}  // NOLINT(google-explicit-constructor)

  Device device() const { return device_; }
  /// Given as -1.
  bool is_minus_one() const { return is_minus_one_; }

 private:
  Device device_;
  bool is_minus_one_ = false;
};

namespace detail {
/// The CUDA device meant, with its index. Errors: "Expected a non cpu device, but got: cpu" (value), "Invalid device
/// id: cuda:7 is not available: 2 CUDA devices visible (cuda:0, cuda:1)" (assertion).
Device checked_gpu(const DeviceId& id);
std::vector<Device> checked_gpus(const std::vector<DeviceId>& ids);
/// Where a result goes: -1 is the CPU, with PyTorch's warning; a CPU device is too, where `cpu` says so.
enum class CpuOutput { allowed, refused };
Device checked_output(const DeviceId& id, CpuOutput cpu);
}  // namespace detail

}  // namespace core

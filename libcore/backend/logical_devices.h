#pragma once
// Tests of what happens on several devices, and when one fails: logical devices on host memory, made and broken at
// will. Thread safety: no device may be in use meanwhile. Use: core::set_logical_devices(2);
// core::inject_faults("cuda:1", {.fail_launch = 3});

#include <cstdint>
#include <vector>

#include "libcore/base/device.h"

namespace core {

/// Replaces what the environment said. REQUIRES: no tensor lives on a logical device.
void set_logical_devices(int count);

struct LogicalDevice {
  std::uint64_t total_memory = 0;  ///< 0: the machine's
  int multiprocessors = 0;         ///< 0: the machine's cores
  bool peer_access = true;         ///< other such devices read its memory, and it theirs
};
void set_logical_devices(const std::vector<LogicalDevice>& devices);

/// What goes wrong on a device. Numbers count calls from now on (0: the next one); -1: never.
struct DeviceFaults {
  std::int64_t fail_allocation = -1;  ///< runs out of memory
  std::int64_t fail_launch = -1;      ///< a kernel: "CUDA error: unspecified launch failure"
  std::int64_t fail_copy = -1;        ///< a copy to or from the device: "CUDA error: invalid argument"
  bool is_sticky = false;             ///< after a failed launch or copy every call fails in the same way
};
/// Faults stay until replaced by {}.
void inject_faults(Device device, const DeviceFaults& faults);
/// The device has this many bytes; 0: as many as it was made with.
void set_memory_limit(Device device, std::uint64_t bytes);

}  // namespace core

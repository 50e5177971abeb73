#pragma once
// The devices of this process, and core::cuda, the functions of torch.cuda.
// Real GPUs come from the CUDA backend. CORE_LOGICAL_DEVICES=N exposes cuda:0 ... cuda:N-1 on host memory where there
// is no GPU (round-robin over the visible real ones where there is), CORE_LOGICAL_DEVICES=host:N always on host memory;
// CUDA_VISIBLE_DEVICES filters and orders logical devices on host memory. Read once, at first use.
// Thread safety: all functions; the current device is per thread.
// Use: if (core::cuda::is_available()) model.to("cuda:0");

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/backend/backend.h"

namespace core {

/// The backend of a device; "cuda" means the current one. Errors: "Torch not compiled with CUDA enabled",
/// "CUDA error: invalid device ordinal", and (unsupported) for device types that have no backend.
Backend& backend_for(Device device);
/// The device with its index: cuda -> cuda:0 (current), cpu:0 -> cpu.
Device resolve(Device device);

struct DeviceInfo {
  Device device;
  std::string name;  ///< "logical, host memory" or the GPU's name
  bool is_logical = false;
  std::uint64_t total_memory = 0;
};

namespace cuda {

bool is_available();
int device_count();
/// Error when there is no device.
int current_device();
void set_device(int index);
void synchronize(std::optional<Device> device = {});
DeviceInfo device_info(int index);

MemoryStats memory_stats(Device device = DeviceType::cuda);
std::uint64_t memory_allocated(Device device = DeviceType::cuda);
std::uint64_t max_memory_allocated(Device device = DeviceType::cuda);
std::uint64_t memory_reserved(Device device = DeviceType::cuda);
void reset_peak_memory_stats(Device device = DeviceType::cuda);
/// Gives cached blocks back.
void empty_cache();

/// Makes a device current for a scope. A CPU device changes nothing.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

}  // namespace cuda

/// For tests, on logical devices. Faults stay until replaced by {}.
struct DeviceFaults {
  std::int64_t fail_allocation = -1;  ///< the k-th allocation from now (0 = next) runs out of memory
  std::int64_t fail_launch = -1;      ///< the k-th kernel from now fails with "CUDA error: unspecified launch failure"
};
void inject_faults(Device device, const DeviceFaults& faults);
/// At most `bytes` allocated at a time; 0 takes the limit away.
void set_memory_limit(Device device, std::uint64_t bytes);
/// Replaces what the environment said. REQUIRES: no tensor lives on a logical device.
void set_logical_devices(int count);

}  // namespace core

#pragma once
// The devices of this process, and core::cuda, the functions of torch.cuda. Real GPUs come from the CUDA backend.
// CORE_LOGICAL_DEVICES=N exposes cuda:0 ... cuda:N-1 on host memory where there is no GPU (round-robin over the visible
// ones where there is), host:N always on host memory, opaque:N on such as faults where the host touches it, as a GPU's
// does (opaque/opaque_tables.h); CUDA_VISIBLE_DEVICES filters and orders those on host memory. Looked for, and
// the environment read, when somebody first asks. Thread safety: all functions; the current device is per thread.
// Use: if (core::cuda::is_available()) model.to("cuda:0");

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/logical_devices.h"

namespace core {

/// The backend of a device; "cuda" means the current one. Errors: "Torch not compiled with CUDA enabled" (in builds
/// with CUDA "Found no NVIDIA driver on your system. ..." or what else keeps devices away), "CUDA error: invalid device
/// ordinal", "Cannot re-initialize CUDA in forked subprocess. ...", and (unsupported) for device types that have no
/// backend.
Backend& backend_for(Device device);
/// The device with its index: cuda -> cuda:0 (current), cpu:0 -> cpu.
Device resolve(Device device);

/// cuda:i where there are more than i devices, else the CPU.
Device try_gpu(int i = 0);
/// Every CUDA device, or the CPU alone.
std::vector<Device> try_all_gpus();

namespace cuda {

bool is_available();
/// As torch.cuda.is_initialized(): whether anybody has asked for the devices yet, which looks for them and starts the
/// driver. What works on the CPU alone does not.
bool is_initialized();
/// As torch.backends.cuda.is_built(): this build has CUDA, whether or not the machine has a GPU.
bool is_built();
int device_count();
/// Error when there is no device.
int current_device();
void set_device(int index);
void synchronize(std::optional<Device> device = {});

/// As torch.cuda.get_device_properties. Error(assertion) "Invalid device id".
DeviceInfo device_info(int index);
std::string device_name(int index);
/// True when kernels on `device` can read memory of `peer`. Errors: "Invalid device id", "Invalid peer device id".
bool can_device_access_peer(int device, int peer);

// Memory. Bytes; a device without index is the current one.

/// What torch.cuda.memory_stats() gives: "allocated_bytes.all.current", "segment.small_pool.peak", "num_ooms", ...
std::map<std::string, std::int64_t> memory_stats(Device device = DeviceType::cuda);
std::uint64_t memory_allocated(Device device = DeviceType::cuda);
std::uint64_t max_memory_allocated(Device device = DeviceType::cuda);
std::uint64_t memory_reserved(Device device = DeviceType::cuda);
std::uint64_t max_memory_reserved(Device device = DeviceType::cuda);
void reset_peak_memory_stats(Device device = DeviceType::cuda);
/// Sets what was allocated and freed so far to zero, and the numbers of retries and of failures.
void reset_accumulated_memory_stats(Device device = DeviceType::cuda);
struct MemoryInfo {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};
MemoryInfo mem_get_info(Device device = DeviceType::cuda);
/// Gives cached blocks of every device back.
void empty_cache();
/// This process may use at most `fraction` of the device's memory. Error(value) "Invalid fraction value: 1.5. Allowed
/// range: 0~1".
void set_per_process_memory_fraction(double fraction, Device device = DeviceType::cuda);

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
}  // namespace core

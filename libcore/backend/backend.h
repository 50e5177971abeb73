#pragma once
// Backend: one device seen by the tensor layer: its memory, its copies, its tables of kernels.
// Thread safety: all functions may be called from any thread. Use: core::backend_for(device).ops().

#include <cstddef>
#include <cstdint>

#include "libcore/backend/op_tables.h"
#include "libcore/base/device.h"

namespace core {

/// Counts of one device's allocator, in bytes unless said otherwise; as torch.cuda.memory_allocated and its like.
struct MemoryStats {
  std::uint64_t allocated = 0;
  std::uint64_t peak_allocated = 0;
  std::uint64_t reserved = 0;
  std::uint64_t peak_reserved = 0;
  std::uint64_t allocations = 0;  ///< calls so far
  std::uint64_t out_of_memory = 0;
  std::uint64_t limit = 0;  ///< 0: none
};

class Backend {
 public:
  Backend(Device device, const OpTables& ops) : device_(device), ops_(ops) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  Device device() const { return device_; }
  /// The kernels. A backend that counts launches (fault injection) does it here.
  const OpTables& ops() {
    if (counts_launches_) on_launch();
    return ops_;
  }
  /// True when pointers of this device can be read by the host.
  bool is_host_memory() const { return host_memory_; }
  /// False on the meta device, whose tensors have no bytes.
  bool has_memory() const { return has_memory_; }

  /// At least `bytes` bytes, 64-byte aligned. Error(device) "... out of memory. Tried to allocate ...".
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data, std::size_t bytes) noexcept = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Between two addresses of this device.
  virtual void copy_within(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill_zero(void* to, std::size_t bytes) = 0;
  /// Waits for everything that was started on this device.
  virtual void synchronize() = 0;
  virtual MemoryStats memory_stats() const { return {}; }

 protected:
  virtual void on_launch() {}
  bool host_memory_ = true;
  bool has_memory_ = true;
  bool counts_launches_ = false;

 private:
  Device device_;
  const OpTables& ops_;
};

}  // namespace core

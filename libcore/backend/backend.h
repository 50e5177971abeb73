#pragma once
// Backend: one device seen by the tensor layer: its memory, its copies, its tables of kernels. Thread safety: all
// functions may be called from any thread. Use: core::Backend& backend = core::backend_for("cpu"); backend.ops();

#include <cstddef>
#include <cstdint>

#include "libcore/backend/device_info.h"
#include "libcore/backend/memory_stats.h"
#include "libcore/base/device.h"

namespace core {

struct OpTables;  // op_tables.h

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
  /// True for what stands behind sparse tensors, which no kernel takes.
  bool is_sparse() const { return sparse_; }

  /// At least `bytes` bytes, 64-byte aligned. OutOfMemoryError "CUDA out of memory. Tried to allocate ...".
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data, std::size_t bytes) noexcept = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Between two addresses of this device.
  virtual void copy_within(void* to, const void* from, std::size_t bytes) = 0;
  /// The same, but may return before the bytes have moved where the host memory is pinned: in the order of the current
  /// stream. What is copied to the host may be read after a synchronisation.
  virtual void copy_from_host_async(void* to, const void* from, std::size_t bytes) { copy_from_host(to, from, bytes); }
  virtual void copy_to_host_async(void* to, const void* from, std::size_t bytes) { copy_to_host(to, from, bytes); }
  /// From memory of another device, in the order of both devices' current streams; false where only the host is between
  /// them, and the caller has to go by it.
  virtual bool copy_from_peer(void* /*to*/, Backend& /*peer*/, const void* /*from*/, std::size_t /*bytes*/) {
    return false;
  }
  virtual void fill_zero(void* to, std::size_t bytes) = 0;
  /// Waits for everything that was started on this device.
  virtual void synchronize() = 0;
  /// True when kernels of this device can read the memory of `other`.
  virtual bool can_access(const Backend& other) const { return &other == this; }
  virtual DeviceInfo info() const { return {.device = device_, .name = device_.str()}; }

  // The allocator.

  virtual MemoryStats memory_stats() const { return {}; }
  /// Bytes that nobody has taken; on host memory those of the capacity that the allocator has not.
  virtual std::uint64_t free_memory() {
    const std::uint64_t total = info().total_memory;
    const auto used = static_cast<std::uint64_t>(memory_stats().reserved_bytes.all.current);
    return total > used ? total - used : 0;
  }
  virtual void reset_peak_memory_stats() {}
  virtual void reset_accumulated_memory_stats() {}
  /// Gives cached memory back.
  virtual void empty_cache() {}
  /// At most this part of the device's memory; 1 takes the limit away.
  virtual void set_memory_fraction(double) {}

  // Host memory from which this device copies without staging.

  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* data, std::size_t bytes) noexcept = 0;

 protected:
  virtual void on_launch() {}
  bool host_memory_ = true;
  bool has_memory_ = true;
  bool sparse_ = false;
  bool counts_launches_ = false;

 private:
  Device device_;
  const OpTables& ops_;
};

}  // namespace core

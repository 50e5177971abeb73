#pragma once
// cuda:i on host memory: computes with the CPU's kernels, draws the numbers of a CUDA device, counts memory as
// PyTorch's caching allocator does, has a capacity, and fails where a test asks for it. Thread safety: as Backend. Use:
// created by the device registry; see logical_devices.h.

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

#include "libcore/backend/caching_model.h"
#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/logical_devices.h"

namespace core {

/// The CPU's kernels, but for random numbers: these are a CUDA device's.
const OpTables& logical_op_tables();

class LogicalBackend : public CpuBackend {
 public:
  explicit LogicalBackend(DeviceInfo info, bool peer_access = true);
  /// With other kernels than the CPU's.
  LogicalBackend(DeviceInfo info, bool peer_access, const OpTables& ops);

  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override { check_alive(); }
  bool can_access(const Backend& other) const override;
  DeviceInfo info() const override;

  MemoryStats memory_stats() const override;
  void reset_peak_memory_stats() override;
  void reset_accumulated_memory_stats() override;
  void empty_cache() override;
  void set_memory_fraction(double fraction) override;

  /// Replaces what is to go wrong, and brings a dead device back.
  void set_faults(const DeviceFaults& faults);
  /// The device has this many bytes; 0: as many as before.
  void set_capacity(std::uint64_t bytes);

 protected:
  void on_launch() override;
  /// The memory itself; null when there is none left.
  virtual void* take(std::size_t bytes) { return CpuBackend::allocate(bytes); }
  virtual void give_back(void* data, std::size_t bytes) noexcept { CpuBackend::free(data, bytes); }
  bool watches_launches_ = false;  ///< on_launch() is wanted without faults too

 private:
  std::uint64_t capacity() const { return capacity_ != 0 ? capacity_ : info_.total_memory; }
  [[noreturn]] void throw_out_of_memory(std::uint64_t bytes);
  void count_copy();
  void check_alive();
  void fail(const char* text);

  mutable std::mutex mutex_;
  DeviceInfo info_;
  bool peer_access_;
  CachingModel model_;
  std::unordered_map<void*, CachingModel::Block*> blocks_;
  std::uint64_t capacity_ = 0;
  double fraction_ = 1;
  DeviceFaults faults_;  // counts of allocations and copies; guarded
  std::atomic<std::int64_t> launches_left_{-1};
  std::atomic<const char*> dead_{nullptr};  // the error that killed the device
};

}  // namespace core

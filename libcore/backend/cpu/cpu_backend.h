#pragma once
// The backend of the CPU, and of logical devices, which compute with the same kernels on counted host memory.
// Thread safety: as Backend. Use: created by the device registry alone.

#include <atomic>
#include <memory>
#include <mutex>

#include "libcore/backend/backend.h"

namespace core {

/// All CPU kernels, chosen for this machine's instruction set at first use.
const OpTables& cpu_op_tables();

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(Device device) : Backend(device, cpu_op_tables()) {}
  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void fill_zero(void* to, std::size_t bytes) override;
  void synchronize() override {}
};

/// cuda:i on host memory: counts like PyTorch's caching allocator, has a memory limit, fails where a test asks for it.
class LogicalBackend : public CpuBackend {
 public:
  LogicalBackend(Device device, std::uint64_t total_memory);
  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  MemoryStats memory_stats() const override;
  std::uint64_t total_memory() const { return total_memory_; }

  void reset_peak();
  void empty_cache();
  void set_limit(std::uint64_t bytes);
  /// Numbers from now on; -1: never.
  void set_faults(std::int64_t allocation, std::int64_t launch);

 protected:
  void on_launch() override;

 private:
  /// Blocks that requests of one size range are cut from.
  struct Pool {
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
  };
  Pool& pool_of(std::uint64_t rounded);
  void throw_out_of_memory(std::uint64_t bytes);

  mutable std::mutex mutex_;
  std::uint64_t total_memory_;
  MemoryStats stats_;
  Pool pools_[3];
  std::int64_t fail_allocation_ = -1;
  std::atomic<std::int64_t> fail_launch_{-1};
};

}  // namespace core

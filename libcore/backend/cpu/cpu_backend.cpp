#include "libcore/backend/cpu/cpu_backend.h"

#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "libcore/backend/host_memory.h"
#include "libcore/base/error.h"

namespace core {

void* CpuBackend::allocate(std::size_t bytes) {
  return host_allocate(bytes);
}
void CpuBackend::free(void* data, std::size_t bytes) noexcept {
  host_free(data, bytes);
}
void CpuBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  copy_within(to, from, bytes);
}
void CpuBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  copy_within(to, from, bytes);
}
void CpuBackend::copy_within(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}
void CpuBackend::fill_zero(void* to, std::size_t bytes) {
  if (bytes != 0) std::memset(to, 0, bytes);
}

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPoolBlock[3] = {2 * kMiB, 20 * kMiB, 2 * kMiB};

// Sizes of PyTorch's caching allocator: multiples of 512 bytes.
std::uint64_t round_request(std::uint64_t bytes) {
  return std::max<std::uint64_t>((bytes + 511) / 512 * 512, 512);
}

/// "20.00 MiB", as in PyTorch's message.
std::string memory_text(std::uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  int unit = bytes < 1024 ? 0 : bytes < kMiB ? 1 : bytes < 1024 * kMiB ? 2 : 3;
  if (unit == 0) return std::to_string(bytes) + " bytes";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / static_cast<double>(1ULL << (10 * unit)),
                units[unit]);
  return text;
}

}  // namespace

LogicalBackend::LogicalBackend(Device device, std::uint64_t total_memory)
    : CpuBackend(device), total_memory_(total_memory) {}

LogicalBackend::Pool& LogicalBackend::pool_of(std::uint64_t rounded) {
  return pools_[rounded <= kMiB ? 0 : rounded < 10 * kMiB ? 1 : 2];
}

void* LogicalBackend::allocate(std::size_t bytes) {
  std::uint64_t rounded = round_request(bytes);
  {
    std::lock_guard lock(mutex_);
    bool fault = fail_allocation_ == 0;
    if (fail_allocation_ >= 0) --fail_allocation_;
    std::uint64_t limit = stats_.limit != 0 ? stats_.limit : total_memory_;
    if (fault || stats_.allocated + rounded > limit) throw_out_of_memory(rounded);
    Pool& pool = pool_of(rounded);
    std::uint64_t block = kPoolBlock[&pool - pools_];
    pool.allocated += rounded;
    std::uint64_t reserve = (pool.allocated + block - 1) / block * block;
    if (reserve > pool.reserved) stats_.reserved += reserve - std::exchange(pool.reserved, reserve);
    stats_.allocated += rounded;
    ++stats_.allocations;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  }
  return CpuBackend::allocate(bytes);
}

void LogicalBackend::throw_out_of_memory(std::uint64_t bytes) {
  ++stats_.out_of_memory;
  std::uint64_t total = stats_.limit != 0 ? stats_.limit : total_memory_;
  std::uint64_t unallocated = stats_.reserved - stats_.allocated;
  throw Error(ErrorCode::device,
              "CUDA out of memory. Tried to allocate " + memory_text(bytes) + ". GPU " +
                  std::to_string(device().index()) + " has a total capacity of " + memory_text(total) + " of which " +
                  memory_text(total > stats_.allocated ? total - stats_.allocated : 0) + " is free. Process " +
                  std::to_string(getpid()) + " has " + memory_text(stats_.reserved) +
                  " memory in use. Of the allocated memory " + memory_text(stats_.allocated) +
                  " is allocated by tensors, and " + memory_text(unallocated) + " is reserved but unallocated.");
}

void LogicalBackend::free(void* data, std::size_t bytes) noexcept {
  std::uint64_t rounded = round_request(bytes);
  {
    std::lock_guard lock(mutex_);
    pool_of(rounded).allocated -= rounded;
    stats_.allocated -= rounded;
  }
  CpuBackend::free(data, bytes);
}

MemoryStats LogicalBackend::memory_stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void LogicalBackend::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void LogicalBackend::empty_cache() {
  std::lock_guard lock(mutex_);
  stats_.reserved = 0;
  for (int i = 0; i < 3; ++i) {
    pools_[i].reserved = (pools_[i].allocated + kPoolBlock[i] - 1) / kPoolBlock[i] * kPoolBlock[i];
    stats_.reserved += pools_[i].reserved;
  }
}

void LogicalBackend::set_limit(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.limit = bytes;
}

void LogicalBackend::set_faults(std::int64_t allocation, std::int64_t launch) {
  std::lock_guard lock(mutex_);
  fail_allocation_ = allocation;
  fail_launch_ = launch;
  counts_launches_ = launch >= 0;
}

void LogicalBackend::on_launch() {
  if (fail_launch_.fetch_sub(1) == 0) throw Error(ErrorCode::device, "CUDA error: unspecified launch failure");
}

}  // namespace core

#pragma once
// What a device's allocator counts, and the error when it has nothing left. The counts are those of PyTorch's caching
// allocator: device memory is taken in segments, which are cut into blocks. Thread safety: plain values.
// Use: core::cuda::memory_stats("cuda:0").at("allocated_bytes.all.peak");

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "libcore/base/device.h"
#include "libcore/base/error.h"

namespace core {

/// One quantity: now, the most so far, all that was added, all that was taken away.
struct MemoryStat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;

  void add(std::int64_t amount) {
    current += amount;
    peak = current > peak ? current : peak;
    (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
  }
};

enum class MemoryPool : std::uint8_t { small, large };  ///< requests up to 1 MiB, and above

/// One quantity over all requests and for each pool.
struct MemoryStatOfPools {
  MemoryStat all;
  MemoryStat large_pool;
  MemoryStat small_pool;

  void add(MemoryPool pool, std::int64_t amount) {
    all.add(amount);
    (pool == MemoryPool::large ? large_pool : small_pool).add(amount);
  }
};

/// The entries of torch.cuda.memory_stats().
struct MemoryStats {
  MemoryStatOfPools allocation;      ///< requests served
  MemoryStatOfPools segment;         ///< pieces taken from the device
  MemoryStatOfPools active;          ///< blocks in use
  MemoryStatOfPools inactive_split;  ///< free blocks that share a segment with others, so cannot be given back
  MemoryStatOfPools allocated_bytes;
  MemoryStatOfPools reserved_bytes;
  MemoryStatOfPools active_bytes;
  MemoryStatOfPools inactive_split_bytes;
  MemoryStatOfPools requested_bytes;   ///< before rounding
  std::int64_t num_alloc_retries = 0;  ///< cached segments were given back to make room
  std::int64_t num_ooms = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
};

/// What was short when a device ran out of memory, in bytes.
struct MemoryShortage {
  Device device;
  std::uint64_t wanted = 0;    ///< the segment that did not fit
  std::uint64_t capacity = 0;  ///< of the device
  std::uint64_t free = 0;
  std::uint64_t allocated = 0;  ///< in tensors
  std::uint64_t reserved = 0;   ///< taken from the device, tensors included
};

/// torch.OutOfMemoryError.
class OutOfMemoryError : public Error {
 public:
  OutOfMemoryError(std::string message, const MemoryShortage& shortage)
      : Error(ErrorCode::device, std::move(message)), shortage_(shortage) {}
  const MemoryShortage& shortage() const noexcept { return shortage_; }

 private:
  MemoryShortage shortage_;
};

}  // namespace core

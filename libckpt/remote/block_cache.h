#pragma once
// BlockCache: parts of remote files that were fetched, least recently used ones dropped first, all files together
// within one bound. Thread safety: any thread. Use: std::uint64_t copied = cache.copy(owner, offset, out);

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

class BlockCache {
 public:
  explicit BlockCache(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Bytes from the front of `out` that are there.
  std::uint64_t copy(const void* owner, std::uint64_t offset, MutableBytes out);
  /// Where the first block of `owner` at or behind `offset` begins; `limit` when there is none before it.
  std::uint64_t next_block(const void* owner, std::uint64_t offset, std::uint64_t limit);
  void put(const void* owner, std::uint64_t offset, core::ByteVector bytes);
  void drop(const void* owner);

 private:
  struct Block {
    const void* owner;
    std::uint64_t offset;
    core::ByteVector bytes;
  };

  std::uint64_t max_bytes_;
  std::mutex mutex_;
  std::list<Block> blocks_;  ///< the last one used first
  std::uint64_t held_ = 0;
};

/// Bytes that may be on their way at the same time. Use: Room room(rooms, length);
class RoomLimit {
 public:
  explicit RoomLimit(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  /// Waits until `bytes` more fit, or nothing else is on its way.
  void take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

 private:
  std::uint64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t taken_ = 0;
};

}  // namespace ckpt::detail

#pragma once
// CachingModel: the bookkeeping of PyTorch's caching allocator without memory behind it, so that a device on host
// memory reports what a GPU would. Requests are rounded to 512 bytes and cut from segments: of 2 MiB for requests up to
// 1 MiB, of 20 MiB up to 10 MiB, of whole 2 MiB beyond. Free neighbours join; segments stay until there is no room.
// Source: PyTorch's documentation of CUDA memory management and the counts it reports.
// Thread safety: none. Use: auto* block = model.allocate(100, limit); model.free(block);

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "libcore/backend/memory_stats.h"

namespace core {

class CachingModel {
 public:
  /// A piece of a segment.
  struct Block {
    std::uint64_t address = 0;  ///< in an imaginary address space
    std::uint64_t size = 0;
    std::uint64_t requested = 0;
    MemoryPool pool = MemoryPool::small;
    bool in_use = false;
    Block* previous = nullptr;  ///< neighbours within the segment
    Block* next = nullptr;
    bool is_split() const { return previous != nullptr || next != nullptr; }
  };

  CachingModel() = default;
  CachingModel(const CachingModel&) = delete;
  CachingModel& operator=(const CachingModel&) = delete;
  /// REQUIRES: every block was freed.
  ~CachingModel();

  /// The bytes that are taken from the device for a request that no cached block serves.
  static std::uint64_t segment_size(std::uint64_t bytes);
  /// Null when the segments would exceed `limit` even after all unused ones were given back.
  Block* allocate(std::uint64_t bytes, std::uint64_t limit);
  void free(Block* block);
  /// Gives unused segments back.
  void release_cached();

  const MemoryStats& stats() const { return stats_; }
  std::uint64_t allocated() const { return static_cast<std::uint64_t>(stats_.allocated_bytes.all.current); }
  std::uint64_t reserved() const { return static_cast<std::uint64_t>(stats_.reserved_bytes.all.current); }
  void count_out_of_memory() { ++stats_.num_ooms; }
  void reset_peaks();
  void reset_accumulated();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;

  Block* take_cached(std::uint64_t size, MemoryPool pool);
  Block* take_segment(std::uint64_t size, MemoryPool pool, std::uint64_t limit);
  Block* split(Block* block, std::uint64_t size);
  std::int64_t absorb(Block* block, Block* neighbour);
  FreeBlocks& free_of(MemoryPool pool) { return pool == MemoryPool::small ? small_ : large_; }

  MemoryStats stats_;
  FreeBlocks small_;
  FreeBlocks large_;
  std::uint64_t next_address_ = 0;
};

}  // namespace core

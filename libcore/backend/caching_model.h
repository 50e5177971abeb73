#pragma once
// CachingModel: the bookkeeping of PyTorch's caching allocator. A CUDA device puts memory behind it (SegmentSource); a
// device on host memory has none, and so reports what a GPU would. Requests are rounded to 512 bytes and cut from
// segments: of 2 MiB for requests up to 1 MiB, of 20 MiB up to 10 MiB, of whole 2 MiB beyond. Free neighbours join;
// segments stay until there is no room. A block that was freed serves only the stream it was allocated for.
// Source: PyTorch's documentation of CUDA memory management and the counts it reports.
// Thread safety: none. Use: auto* block = model.allocate(100, limit); model.free(block);

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "libcore/backend/memory_stats.h"

namespace core {

/// Where segments come from.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// The address of as many new bytes; 0 when there are none.
  virtual std::uint64_t take(std::uint64_t bytes) = 0;
  virtual void give(std::uint64_t address, std::uint64_t bytes) noexcept = 0;
};

class CachingModel {
 public:
  /// A piece of a segment.
  struct Block {
    std::uint64_t address = 0;  ///< without a source: in an imaginary address space
    std::uint64_t size = 0;
    std::uint64_t requested = 0;
    MemoryPool pool = MemoryPool::small;
    bool in_use = false;
    Block* previous = nullptr;  ///< neighbours within the segment
    Block* next = nullptr;
    void* stream = nullptr;          ///< whose work may reuse it
    std::uint64_t private_pool = 0;  ///< of a captured graph; 0: none
    bool is_split() const { return previous != nullptr || next != nullptr; }
  };

  /// What a request is for.
  struct Use {
    void* stream = nullptr;
    std::uint64_t private_pool = 0;
  };

  explicit CachingModel(SegmentSource* source = nullptr) : source_(source) {}
  CachingModel(const CachingModel&) = delete;
  CachingModel& operator=(const CachingModel&) = delete;
  /// REQUIRES: every block was freed.
  ~CachingModel();

  /// The bytes that are taken from the device for a request that no cached block serves.
  static std::uint64_t segment_size(std::uint64_t bytes);
  /// Null when the segments would exceed `limit`, or the source has none, even after all unused ones were given back.
  Block* allocate(std::uint64_t bytes, std::uint64_t limit);
  /// The same without giving anything back; the caller does, and says so with count_retry().
  Block* try_allocate(std::uint64_t bytes, std::uint64_t limit, Use use);
  void free(Block* block) {
    retire(block);
    give_back(block);
  }
  /// free() in two steps: the owner let go; and nothing on the device uses the block any more.
  void retire(Block* block);
  void give_back(Block* block);
  /// Gives unused segments back, but those of private pools that are kept.
  void release_cached();
  /// A private pool keeps its segments for its graph until release_pool().
  void keep_pool(std::uint64_t id) { kept_.insert(id); }
  void release_pool(std::uint64_t id) { kept_.erase(id); }
  /// Gives unused segments of private pools back that are not kept: they serve nobody else.
  void release_dead_pools();

  const MemoryStats& stats() const { return stats_; }
  std::uint64_t allocated() const { return static_cast<std::uint64_t>(stats_.allocated_bytes.all.current); }
  std::uint64_t reserved() const { return static_cast<std::uint64_t>(stats_.reserved_bytes.all.current); }
  void count_retry() { ++stats_.num_alloc_retries; }
  void count_out_of_memory() { ++stats_.num_ooms; }
  void reset_peaks();
  void reset_accumulated();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) return std::less<>()(a->stream, b->stream);
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;
  struct Pools {
    FreeBlocks small;
    FreeBlocks large;
  };

  Block* take_cached(std::uint64_t size, MemoryPool pool, Use use);
  Block* take_segment(std::uint64_t size, MemoryPool pool, std::uint64_t limit, Use use);
  Block* split(Block* block, std::uint64_t size);
  std::int64_t absorb(Block* block, Block* neighbour);
  void release_unsplit(Pools& pools);
  void release_unsplit(FreeBlocks& blocks);
  FreeBlocks& free_of(MemoryPool pool, std::uint64_t private_pool) {
    Pools& pools = private_pool == 0 ? shared_ : private_[private_pool];
    return pool == MemoryPool::small ? pools.small : pools.large;
  }
  FreeBlocks& free_of(const Block* block) { return free_of(block->pool, block->private_pool); }

  SegmentSource* source_;
  MemoryStats stats_;
  Pools shared_;
  std::map<std::uint64_t, Pools> private_;
  std::set<std::uint64_t> kept_;
  std::uint64_t next_address_ = 0;
};

}  // namespace core

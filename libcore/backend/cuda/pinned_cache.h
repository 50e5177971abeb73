#pragma once
// Pinned host memory, cached because taking it from the driver costs as much as a large copy. Up to 1 MiB blocks have
// sizes of powers of two; beyond, of eighths of the power of two below, so that at most an eighth is lost where powers
// of two would lose half. A cached block serves every request that it is not more than a quarter too large for. A block
// that a stream still copies from or to is not given out again before that is done; events of the pool say when.
// Thread safety: all functions. Use: void* data = cache.allocate(bytes); cache.record(data, gpu, stream);
// cache.free(data);

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/backend/cuda/event_pool.h"
#include "libcore/backend/cuda/pending_uses.h"

namespace core::gpu {

class PinnedCache {
 public:
  PinnedCache(const CudaApi& api, std::shared_ptr<EventPool> events) : api_(api), pending_(api, std::move(events)) {}
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;
  ~PinnedCache();

  /// Of a new block that is to hold `bytes`.
  static std::size_t block_size(std::size_t bytes);

  /// Null when the machine has no more memory to pin, even after unused blocks were given back; `error` says what the
  /// driver did.
  void* allocate(std::size_t bytes, int& error);
  void free(void* data) noexcept;
  /// True when [data, data + bytes) lies in one block.
  bool contains(const void* data, std::size_t bytes) const;
  /// Work on `stream` of `gpu`, which is current, uses the block that holds `data`; nothing for other memory.
  int record(const void* data, int gpu, StreamHandle stream);
  /// Gives unused blocks back to the system.
  void release_cached();
  /// Bytes in blocks given out, and cached.
  std::uint64_t allocated() const;
  std::uint64_t cached() const;

 private:
  struct Block;
  using Uses = PendingUses<Block>;
  struct Block {
    char* data = nullptr;
    std::size_t size = 0;
    bool in_use = false;
    std::vector<std::pair<StreamUser, Uses::Place>> uses = {};  // the last one on each stream
  };
  Block* find(const void* data) const;
  Block* take_free(std::size_t bytes);
  Block* take_new(std::size_t size, int& error);
  void give_out(Block& block);
  void collect_finished();
  void give_back_free();

  const CudaApi& api_;
  mutable std::mutex mutex_;
  std::map<const char*, std::unique_ptr<Block>> blocks_;
  std::map<std::size_t, std::vector<Block*>> free_;  // by size: nobody has them, and no stream uses them
  Uses pending_;
  std::uint64_t allocated_ = 0, cached_ = 0;
};

}  // namespace core::gpu

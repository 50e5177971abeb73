#pragma once
// Pinned host memory, cached because taking it from the driver costs as much as a large copy. Sizes are rounded up to
// powers of two. A block that a stream still copies from or to is not given out again before that is done.
// Thread safety: all functions. Use: void* data = cache.allocate(bytes); cache.record(data, gpu, stream);
// cache.free(data);

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"

namespace core::gpu {

class PinnedCache {
 public:
  explicit PinnedCache(const CudaApi& api) : api_(api) {}
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;
  ~PinnedCache();

  /// Null when the machine has no more memory to pin; `error` says what the driver did.
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
  struct Use {
    int gpu;
    StreamHandle stream;
    EventHandle event;
  };
  struct Block {
    std::size_t size = 0;
    bool in_use = false;
    std::vector<Use> uses;  // the last one on each stream
  };
  using Blocks = std::map<const char*, Block>;
  Blocks::const_iterator find(const void* data) const;
  bool is_idle(Block& block);

  const CudaApi& api_;
  mutable std::mutex mutex_;
  Blocks blocks_;
};

}  // namespace core::gpu

#pragma once
// Decoded chunks that were read last, by bytes. Internal to Hdf5Sources. Thread safety: any thread.
// Use: Hdf5ChunkCache::Chunk chunk = cache.find(dataset, number);

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "libckpt/hdf5/tree.h"
#include "libckpt/io/kept_memory.h"

namespace ckpt::detail {

class Hdf5ChunkCache final : private Keeper {
 public:
  Hdf5ChunkCache() = default;
  ~Hdf5ChunkCache() override { forget(); }

  using Chunk = std::shared_ptr<const core::ByteVector>;
  static constexpr std::uint64_t kMaxRoom = 256ULL << 20;
  using Key = std::pair<const void*, std::uint64_t>;  ///< dataset, number

  Chunk find(const Key& key);
  void keep(const Key& key, Chunk chunk);
  /// Grows to `bytes`, up to kMaxRoom and what readers may keep (kept_memory.h).
  void want_room(std::uint64_t bytes);

 private:
  struct Slot {
    Key key;
    Chunk chunk;
  };
  bool let_go() const override;

  mutable std::mutex mutex_;
  mutable std::list<Slot> slots_;  ///< the one that was used last stands first
  mutable std::map<Key, std::list<Slot>::iterator> index_;
  mutable std::uint64_t bytes_ = 0;
  std::uint64_t room_ = 64ULL << 20;
};

}  // namespace ckpt::detail

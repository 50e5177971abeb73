#include "libckpt/hdf5/chunk_cache.h"

#include <algorithm>

namespace ckpt::detail {

Hdf5ChunkCache::Chunk Hdf5ChunkCache::find(const Key& key) {
  std::lock_guard lock(mutex_);
  auto at = index_.find(key);
  if (at == index_.end()) return nullptr;
  slots_.splice(slots_.begin(), slots_, at->second);
  return at->second->chunk;
}

void Hdf5ChunkCache::keep(const Key& key, Chunk chunk) {
  std::lock_guard lock(mutex_);
  if (index_.contains(key)) return;  // another thread decoded it meanwhile
  bytes_ += chunk->size();
  slots_.push_front({key, std::move(chunk)});
  index_[key] = slots_.begin();
  while (bytes_ > std::min(room_, most_kept()) && slots_.size() > 1) {
    bytes_ -= slots_.back().chunk->size();
    index_.erase(slots_.back().key);
    slots_.pop_back();
  }
  used(bytes_);
}

bool Hdf5ChunkCache::let_go() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  index_.clear();
  slots_.clear();
  bytes_ = 0;
  return true;
}

void Hdf5ChunkCache::want_room(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  room_ = std::max(room_, std::min(bytes, kMaxRoom));
}

}  // namespace ckpt::detail

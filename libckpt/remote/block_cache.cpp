#include "libckpt/remote/block_cache.h"

#include <algorithm>

namespace ckpt::detail {

std::uint64_t BlockCache::copy(const void* owner, std::uint64_t offset, MutableBytes out) {
  std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    bool holds = block->owner == owner && offset >= block->offset && offset < block->offset + block->bytes.size();
    if (!holds) continue;
    Bytes there = Bytes(block->bytes).subspan(offset - block->offset);
    std::uint64_t count = std::min(there.size(), out.size());
    std::copy_n(there.begin(), count, out.begin());
    blocks_.splice(blocks_.begin(), blocks_, block);
    return count;
  }
  return 0;
}

std::uint64_t BlockCache::next_block(const void* owner, std::uint64_t offset, std::uint64_t limit) {
  std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) {
    if (block.owner == owner && block.offset >= offset) limit = std::min(limit, block.offset);
  }
  return limit;
}

void BlockCache::put(const void* owner, std::uint64_t offset, core::ByteVector bytes) {
  std::lock_guard lock(mutex_);
  held_ += bytes.size();
  blocks_.push_front({owner, offset, std::move(bytes)});
  while (held_ > max_bytes_ && blocks_.size() > 1) {
    held_ -= blocks_.back().bytes.size();
    blocks_.pop_back();
  }
}

void BlockCache::drop(const void* owner) {
  std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [&](const Block& block) {
    if (block.owner == owner) held_ -= block.bytes.size();
    return block.owner == owner;
  });
}

void RoomLimit::take(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= max_bytes_; });
  taken_ += bytes;
}

void RoomLimit::give_back(std::uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }
  changed_.notify_all();
}

}  // namespace ckpt::detail

#include "libcore/backend/cuda/pinned_cache.h"

#include <algorithm>
#include <bit>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/free_mutex.h"

namespace core::gpu {

PinnedCache::~PinnedCache() {
  for (const auto& [data, block] : blocks_) api_.free_host(block->data);
}

std::size_t PinnedCache::block_size(std::size_t bytes) {
  constexpr std::size_t kSmallest = 512, kPowersOfTwo = std::size_t{1} << 20;
  if (bytes <= kPowersOfTwo) return std::bit_ceil(std::max(bytes, kSmallest));
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

/// No event of a capture is among those asked (CudaBackend::record_pinned).
void* PinnedCache::allocate(std::size_t bytes, int& error) {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(api_);
  error = kSuccess;
  Block* block = take_free(bytes);
  if (block == nullptr) {
    collect_finished();
    block = take_free(bytes);
  }
  if (block == nullptr) block = take_new(block_size(bytes), error);
  if (block == nullptr) return nullptr;
  give_out(*block);
  return block->data;
}

/// The smallest that is large enough and not too large; null: there is none.
PinnedCache::Block* PinnedCache::take_free(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  const auto found = free_.lower_bound(size);
  if (found == free_.end() || found->first > std::max(size, bytes + bytes / 4)) return nullptr;
  Block* block = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) free_.erase(found);
  return block;
}

PinnedCache::Block* PinnedCache::take_new(std::size_t size, int& error) {
  void* data = nullptr;
  error = api_.allocate_host(&data, size);
  if (error == kOutOfMemory && !free_.empty()) {
    api_.last_error();
    give_back_free();
    error = api_.allocate_host(&data, size);
  }
  if (error != kSuccess) return nullptr;
  auto* address = static_cast<char*>(data);
  cached_ += size;
  return (blocks_[address] = std::make_unique<Block>(Block{.data = address, .size = size})).get();
}

void PinnedCache::give_out(Block& block) {
  block.in_use = true;
  cached_ -= block.size;
  allocated_ += block.size;
}

void PinnedCache::free(void* data) noexcept {
  std::lock_guard lock(mutex_);
  Block& block = *blocks_.find(static_cast<const char*>(data))->second;
  block.in_use = false;
  allocated_ -= block.size;
  cached_ += block.size;
  if (block.uses.empty()) free_[block.size].push_back(&block);
}

/// The block that holds the address; null: none does.
PinnedCache::Block* PinnedCache::find(const void* data) const {
  const auto* address = static_cast<const char*>(data);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  Block* block = (--next)->second.get();
  return address < block->data + block->size ? block : nullptr;
}

bool PinnedCache::contains(const void* data, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  const Block* block = find(data);
  return block != nullptr && static_cast<const char*>(data) + bytes <= block->data + block->size;
}

int PinnedCache::record(const void* data, int gpu, StreamHandle stream) {
  std::lock_guard lock(mutex_);
  Block* block = find(data);
  if (block == nullptr) return kSuccess;
  const StreamUser user{stream, gpu};
  for (const auto& [known, place] : block->uses) {
    if (known == user) return pending_.prolong(user, place);
  }
  Uses::Place place;
  const int error = pending_.add(user, block, &place);
  if (error == kSuccess) block->uses.emplace_back(user, place);
  return error;
}

void PinnedCache::collect_finished() {
  pending_.collect([this](const StreamUser& user, Block* block) {
    std::erase_if(block->uses, [&](const auto& use) { return use.first == user; });
    if (block->uses.empty() && !block->in_use) free_[block->size].push_back(block);
  });
}

void PinnedCache::release_cached() {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(api_);
  collect_finished();
  give_back_free();
}

void PinnedCache::give_back_free() {
  const std::lock_guard turn(free_mutex());
  for (const auto& [size, blocks] : free_) {
    for (const Block* block : blocks) {
      api_.free_host(block->data);
      cached_ -= size;
      blocks_.erase(block->data);
    }
  }
  free_.clear();
}

std::uint64_t PinnedCache::allocated() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

std::uint64_t PinnedCache::cached() const {
  std::lock_guard lock(mutex_);
  return cached_;
}

}  // namespace core::gpu

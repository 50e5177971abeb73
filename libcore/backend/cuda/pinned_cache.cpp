#include "libcore/backend/cuda/pinned_cache.h"

#include <algorithm>
#include <bit>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/free_mutex.h"

namespace core::gpu {
namespace {

constexpr std::size_t kSmallest = 512;

}  // namespace

PinnedCache::~PinnedCache() {
  for (auto& [data, block] : blocks_) {
    for (const Use& use : block.uses) api_.event_destroy(use.event);
    api_.free_host(const_cast<char*>(data));
  }
}

void* PinnedCache::allocate(std::size_t bytes, int& error) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(api_);
  error = kSuccess;
  for (auto& [data, block] : blocks_) {
    if (block.in_use || block.size != size || !is_idle(block)) continue;
    block.in_use = true;
    return const_cast<char*>(data);
  }
  void* data = nullptr;
  error = api_.allocate_host(&data, size);
  if (error != kSuccess) return nullptr;
  blocks_[static_cast<const char*>(data)] = {.size = size, .in_use = true, .uses = {}};
  return data;
}

void PinnedCache::free(void* data) noexcept {
  std::lock_guard lock(mutex_);
  blocks_.find(static_cast<const char*>(data))->second.in_use = false;
}

/// The block that holds the address.
PinnedCache::Blocks::const_iterator PinnedCache::find(const void* data) const {
  const auto* address = static_cast<const char*>(data);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return address < next->first + next->second.size ? next : blocks_.end();
}

bool PinnedCache::contains(const void* data, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto found = find(data);
  return found != blocks_.end() && static_cast<const char*>(data) + bytes <= found->first + found->second.size;
}

int PinnedCache::record(const void* data, int gpu, StreamHandle stream) {
  std::lock_guard lock(mutex_);
  const auto found = find(data);
  if (found == blocks_.end()) return kSuccess;
  auto& uses = blocks_.find(found->first)->second.uses;
  for (const Use& use : uses) {
    if (use.gpu == gpu && use.stream == stream) return api_.event_record(use.event, stream);
  }
  EventHandle event = nullptr;
  if (int error = api_.event_create(&event, false); error != kSuccess) return error;
  uses.push_back({gpu, stream, event});
  return api_.event_record(event, stream);
}

/// True when no copy uses the block any more. No event of a capture is among those asked (CudaBackend::record_pinned).
bool PinnedCache::is_idle(Block& block) {
  for (const Use& use : block.uses) {
    if (is_pending(api_, api_.event_query(use.event))) return false;
  }
  for (const Use& use : block.uses) api_.event_destroy(use.event);
  block.uses.clear();
  return true;
}

void PinnedCache::release_cached() {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(api_);
  const std::lock_guard turn(free_mutex());
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    if (it->second.in_use || !is_idle(it->second)) {
      ++it;
      continue;
    }
    api_.free_host(const_cast<char*>(it->first));
    it = blocks_.erase(it);
  }
}

std::uint64_t PinnedCache::allocated() const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [data, block] : blocks_) bytes += block.in_use ? block.size : 0;
  return bytes;
}

std::uint64_t PinnedCache::cached() const {
  std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [data, block] : blocks_) bytes += block.in_use ? 0 : block.size;
  return bytes;
}

}  // namespace core::gpu

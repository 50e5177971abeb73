#include "libcore/backend/shared_block.h"

#include <map>
#include <mutex>

namespace core {
namespace {

/// The blocks alive, by address. Never destroyed: tensors of static lifetime may still be freed.
struct Blocks {
  std::mutex mutex;
  std::map<const std::byte*, SharedBlock*> by_address;

  /// The block that holds `data`, or null. REQUIRES: the mutex is held.
  SharedBlock* find(const void* data) const {
    const auto* at = static_cast<const std::byte*>(data);
    auto next = by_address.upper_bound(at);
    if (next == by_address.begin()) return nullptr;
    SharedBlock* block = std::prev(next)->second;
    return at < block->data() + block->bytes() ? block : nullptr;
  }
};

Blocks& blocks() {
  static auto* made = new Blocks;
  return *made;
}

}  // namespace

SharedBlock* SharedBlock::make(Backend& backend, std::size_t bytes) {
  auto* block = new SharedBlock(backend, bytes);
  const std::lock_guard lock(blocks().mutex);
  blocks().by_address.emplace(block->data(), block);
  return block;
}

void SharedBlock::release(void* block) {
  auto* self = static_cast<SharedBlock*>(block);
  if (self->owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::lock_guard lock(blocks().mutex);
    blocks().by_address.erase(self->data());
  }
  delete self;
}

void* allocation_of(void* data) {
  const std::lock_guard lock(blocks().mutex);
  const SharedBlock* block = blocks().find(data);
  return block != nullptr ? block->data() : data;
}

bool in_one_block(const void* a, const void* b) {
  const std::lock_guard lock(blocks().mutex);
  const SharedBlock* block = blocks().find(a);
  return block != nullptr && block == blocks().find(b);
}

}  // namespace core

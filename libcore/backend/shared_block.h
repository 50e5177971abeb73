#pragma once
// SharedBlock: one allocation of a device that several storages lie in, each a part of its own; it goes back when the
// last of them goes. Makes many small tensors cost one allocation and one copy. Thread safety: all functions.
// Use: core::SharedBlock* block = core::SharedBlock::make(backend, bytes); core::from_blob(block->data(), {8},
// core::DType::f32, "cuda", core::SharedBlock::release, block);

#include <atomic>
#include <cstddef>

#include "libcore/backend/backend.h"

namespace core {

class SharedBlock {
 public:
  /// Between the parts of a block, as between two blocks of PyTorch's allocator.
  static constexpr std::size_t kAlignment = 512;
  static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  /// With one owner, the caller. Errors: those of Backend::allocate.
  static SharedBlock* make(Backend& backend, std::size_t bytes);
  void retain() { owners_.fetch_add(1, std::memory_order_relaxed); }
  /// One owner less; `block` is a SharedBlock. Of the form that Storage::borrow wants.
  static void release(void* block);

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  SharedBlock(Backend& backend, std::size_t bytes) : backend_(backend), data_(backend.allocate(bytes)), bytes_(bytes) {}
  ~SharedBlock() { backend_.free(data_, bytes_); }

  Backend& backend_;
  void* data_;
  std::size_t bytes_;
  std::atomic<std::size_t> owners_{1};
};

/// The address that the allocator knows `data` by: the begin of the shared block that it lies in, else `data`.
void* allocation_of(void* data);
/// True when both lie in one shared block.
bool in_one_block(const void* a, const void* b);

}  // namespace core

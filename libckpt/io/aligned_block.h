#pragma once
// A block of memory at a multiple of 4,096 bytes, for reads and writes past the page cache. Internal to libckpt. Thread
// safety: as a vector. Errors: std::bad_alloc. Use: AlignedBlock block(4 << 20); source->read(0, block.bytes());

#include <cstddef>
#include <memory>
#include <new>

#include "libckpt/io/page_cache_use.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class AlignedBlock {
 public:
  /// Bytes of any values.
  explicit AlignedBlock(std::size_t size) : memory_(new (kAlignment) std::byte[size]), size_(size) {}
  core::MutableBytes bytes() const { return {memory_.get(), size_}; }

 private:
  static constexpr std::align_val_t kAlignment{kDirectAlignment};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_;
};

}  // namespace ckpt::detail

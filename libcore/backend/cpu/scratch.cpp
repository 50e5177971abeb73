#include "libcore/backend/cpu/scratch.h"

#include <array>
#include <utility>

#include "libcore/backend/host_memory.h"

namespace core::cpu {
namespace {

constexpr std::size_t kKept = std::size_t{64} << 20;

/// Comes from and goes to the cache of tensors: a size that every call needs does not fault its pages in every time.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { release(); }

  void release() noexcept {
    if (data != nullptr) host_free(std::exchange(data, nullptr), std::exchange(bytes, 0));
  }
};

thread_local std::array<Block, static_cast<std::size_t>(Scratch::count_)> blocks;

}  // namespace

void* scratch_bytes(Scratch name, std::size_t bytes) {
  Block& block = blocks[static_cast<std::size_t>(name)];
  if (block.bytes < bytes) {
    const std::size_t rounded = bytes > kKept ? bytes : bytes + bytes / 4;  // large ones come and go
    block.release();
    block.data = host_allocate(rounded);
    block.bytes = rounded;
  }
  return block.data;
}

void trim_scratch() {
  for (Block& block : blocks) {
    if (block.bytes > kKept) block.release();
  }
}

}  // namespace core::cpu

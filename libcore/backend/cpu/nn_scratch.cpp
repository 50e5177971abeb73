#include "libcore/backend/cpu/nn_scratch.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <new>

namespace core::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kKept = std::size_t{64} << 20;

struct Free {
  void operator()(void* block) const { std::free(block); }
};

struct Block {
  std::unique_ptr<void, Free> data;
  std::size_t bytes = 0;
};

thread_local std::array<Block, static_cast<std::size_t>(Scratch::count_)> blocks;

}  // namespace

void* scratch_bytes(Scratch name, std::size_t bytes) {
  Block& block = blocks[static_cast<std::size_t>(name)];
  if (block.bytes < bytes) {
    const std::size_t rounded = (bytes + bytes / 4 + kAlignment) / kAlignment * kAlignment;
    block.data.reset();
    block.bytes = 0;
    block.data.reset(std::aligned_alloc(kAlignment, rounded));
    if (!block.data) throw std::bad_alloc();
    block.bytes = rounded;
  }
  return block.data.get();
}

void trim_scratch() {
  for (Block& block : blocks) {
    if (block.bytes > kKept) block = {};
  }
}

}  // namespace core::cpu

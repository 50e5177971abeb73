#include "libcore/backend/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

TEST(HostMemory, BlocksAreAlignedAndDistinct) {
  std::vector<void*> blocks;
  for (std::size_t bytes : {0UL, 1UL, 64UL, 65UL, 511UL, 513UL, 4097UL, 40000UL, 3000000UL}) {
    void* block = core::host_allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % core::kAlignment, 0U) << bytes;
    std::memset(block, static_cast<int>(blocks.size()), bytes);
    blocks.push_back(block);
  }
  EXPECT_EQ(static_cast<unsigned char*>(blocks[4])[510], 4);
  std::size_t sizes[] = {0, 1, 64, 65, 511, 513, 4097, 40000, 3000000};
  for (std::size_t i = 0; i < blocks.size(); ++i) core::host_free(blocks[i], sizes[i]);
}

TEST(HostMemory, EverySizeFitsItsClass) {
  // Each block is written to its end; the next one of the same class must not be touched by it.
  for (std::size_t bytes = 1; bytes < 70000; bytes = bytes * 9 / 8 + 1) {
    auto* first = static_cast<unsigned char*>(core::host_allocate(bytes));
    auto* second = static_cast<unsigned char*>(core::host_allocate(bytes));
    std::memset(first, 1, bytes);
    std::memset(second, 2, bytes);
    EXPECT_EQ(first[bytes - 1], 1) << bytes;
    core::host_free(first, bytes);
    core::host_free(second, bytes);
  }
}

TEST(HostMemory, BlocksMayBeFreedByAnotherThread) {
  void* block = core::host_allocate(256);
  std::thread([&] { core::host_free(block, 256); }).join();
  void* large = nullptr;
  std::thread([&] { large = core::host_allocate(1 << 20); }).join();
  core::host_free(large, 1 << 20);
  core::host_trim();
}

}  // namespace

#include "libcore/backend/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
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

/// The flags of the mapping at this address, "rd wr mr mw me ac sd hg".
std::string flags_at(const void* address) {
  std::ifstream file("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (std::istringstream text(line); text >> std::hex >> begin >> dash >> end && dash == '-') {
      is_it = begin <= reinterpret_cast<std::uintptr_t>(address) && reinterpret_cast<std::uintptr_t>(address) < end;
    }
    if (is_it && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

TEST(HostMemory, LargeBlocksAskForHugePages) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  for (const std::size_t bytes : {2 * kHugePage, std::size_t{25} << 20}) {
    void* block = core::host_allocate(bytes);
    if (const std::string flags = flags_at(block); !flags.empty()) {  // systems without that have no such pages either
      EXPECT_NE(flags.find(" hg "), std::string::npos) << bytes << ": " << flags;
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kHugePage, 0U) << bytes;
    core::host_free(block, bytes);
  }
}

}  // namespace

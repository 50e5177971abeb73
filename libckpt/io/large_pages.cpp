#include "libckpt/io/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace ckpt::detail {
namespace {

constexpr std::size_t kLargePage = 2 << 20;

std::align_val_t alignment_of(std::size_t size) {
  return std::align_val_t{size >= kLargePage ? kLargePage : alignof(std::max_align_t)};
}

}  // namespace

void* take_pages(std::size_t size) {
  void* memory = ::operator new(size, alignment_of(size));
  prefer_large_pages(memory, size);
  return memory;
}

void prefer_large_pages(void* memory, std::size_t size) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t skip = (kLargePage - begin % kLargePage) % kLargePage;
  if (size < skip + kLargePage) return;
  ::madvise(static_cast<std::byte*>(memory) + skip, (size - skip) / kLargePage * kLargePage, MADV_HUGEPAGE);
}

void give_pages_back(void* memory, std::size_t size) noexcept {
  ::operator delete(memory, alignment_of(size));
}

}  // namespace ckpt::detail

#pragma once
// LargeBlock and LargeVector: memory that may be much, in large pages where the system has them, which costs a tenth of
// the faults. Thread safety: as a vector. Errors: std::bad_alloc. Use: LargeBlock index(64 << 20);
// std::ranges::fill(index.bytes(), std::byte{0});

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Memory of any values, aligned for every type; in large pages where it is enough for them.
void* take_pages(std::size_t size);
/// REQUIRES: take_pages(size) gave `memory`.
void give_pages_back(void* memory, std::size_t size) noexcept;

/// Asks for large pages in memory that nobody has touched yet.
void prefer_large_pages(void* memory, std::size_t size) noexcept;

template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(take_pages(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) noexcept { give_pages_back(memory, count * sizeof(T)); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }
};

template <class T>
using LargeVector = std::vector<T, LargePages<T>>;

/// Bytes of any values, to be written before they are read.
class LargeBlock {
 public:
  explicit LargeBlock(std::size_t size) : size_(size), memory_(static_cast<std::byte*>(take_pages(size))) {}
  ~LargeBlock() {
    if (memory_ != nullptr) give_pages_back(memory_, size_);
  }
  LargeBlock(LargeBlock&& other) noexcept : size_(other.size_), memory_(std::exchange(other.memory_, nullptr)) {}
  LargeBlock(const LargeBlock&) = delete;
  LargeBlock& operator=(LargeBlock&&) = delete;
  LargeBlock& operator=(const LargeBlock&) = delete;

  std::size_t size() const { return size_; }
  std::byte* data() const { return memory_; }
  core::MutableBytes bytes() const { return {memory_, size_}; }

 private:
  std::size_t size_;
  std::byte* memory_;
};

}  // namespace ckpt::detail

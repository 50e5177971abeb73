#include "libckpt/io/object_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <vector>

namespace ckpt::detail {
namespace {

constexpr std::size_t kAlignment = alignof(std::max_align_t);
constexpr std::size_t kLeastBlock = 4096;
constexpr std::size_t kLargestBlock = 64 << 20;
constexpr std::size_t kLargePage = 2 << 20;

constexpr std::size_t rounded_up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

}  // namespace

/// Memory in large pages, where it is enough of it and the system has them.
class LargeBlock {
 public:
  explicit LargeBlock(std::size_t size)
      : size_(size), align_{size >= kLargePage ? kLargePage : kAlignment}, memory_(::operator new(size_, align_)) {
    if (size_ >= kLargePage) ::madvise(memory_, size_ / kLargePage * kLargePage, MADV_HUGEPAGE);
  }
  ~LargeBlock() {
    if (memory_ != nullptr) ::operator delete(memory_, align_);
  }
  LargeBlock(LargeBlock&& other) noexcept
      : size_(other.size_), align_(other.align_), memory_(std::exchange(other.memory_, nullptr)) {}
  LargeBlock(const LargeBlock&) = delete;
  LargeBlock& operator=(LargeBlock&&) = delete;
  LargeBlock& operator=(const LargeBlock&) = delete;

  std::size_t size() const { return size_; }
  std::byte* bytes() const { return static_cast<std::byte*>(memory_); }

 private:
  std::size_t size_;
  std::align_val_t align_;
  void* memory_;
};

class ObjectArena::Pool {
 public:
  explicit Pool(std::uint64_t expected)
      : next_size_(std::clamp<std::uint64_t>(rounded_up(expected, kLeastBlock), kLeastBlock, kLargestBlock)) {}

  void* take(std::size_t size) {
    size = rounded_up(size, kAlignment);
    if (size > left_) {
      blocks_.emplace_back(std::max(next_size_, size));
      next_ = blocks_.back().bytes();
      left_ = blocks_.back().size();
      next_size_ = std::clamp(next_size_ / 4, kLeastBlock, kLargestBlock);
    }
    void* object = next_;
    next_ += size;
    left_ -= size;
    ++made_;
    return object;
  }

  /// One object less; true for the last of them, once the arena itself has gone.
  bool put_back() { return balance_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// The arena goes; true when no object is left.
  bool close() { return balance_.fetch_add(made_, std::memory_order_acq_rel) + made_ == 0; }

 private:
  std::vector<LargeBlock> blocks_;
  std::size_t next_size_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::int64_t made_ = 0;
  /// Objects that are there, as soon as the arena has gone; before, how many have gone, below zero: so that making one
  /// costs no operation that threads could see.
  std::atomic<std::int64_t> balance_ = 0;
};

ObjectArena::ObjectArena(std::uint64_t expected) : pool_(new Pool(expected)) {}

ObjectArena::~ObjectArena() {
  if (pool_->close()) delete pool_;
}

void* ObjectArena::take(Pool& pool, std::size_t size) {
  return pool.take(size);
}

void ObjectArena::put_back(Pool& pool) noexcept {
  if (pool.put_back()) delete &pool;
}

}  // namespace ckpt::detail

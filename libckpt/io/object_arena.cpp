#include "libckpt/io/object_arena.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "libckpt/io/large_pages.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kAlignment = alignof(std::max_align_t);
constexpr std::size_t kLeastBlock = 4096;
constexpr std::size_t kLargestBlock = 64 << 20;

constexpr std::size_t rounded_up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

}  // namespace

class ObjectArena::Pool {
 public:
  explicit Pool(std::uint64_t expected)
      : next_size_(std::clamp<std::uint64_t>(rounded_up(expected, kLeastBlock), kLeastBlock, kLargestBlock)) {}

  void* take(std::size_t size) {
    size = rounded_up(size, kAlignment);
    if (size > left_) {
      blocks_.emplace_back(std::max(next_size_, size));
      next_ = blocks_.back().data();
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

#include "libcore/backend/host_memory.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

// Caching would hide a use after free from the sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCache = false;
#else
constexpr bool kCache = true;
#endif
constexpr std::size_t kSmall = 32 * 1024;                      // up to here: per thread, without a lock
constexpr std::size_t kClasses = kSmall / kAlignment / 8;      // enough for the spacing below
constexpr std::size_t kMaxPerClass = 256;                      // blocks a thread keeps of one class
constexpr std::size_t kMaxLargeCached = std::size_t{1} << 30;  // bytes that all threads keep together

// Large blocks ask for huge pages: without those the first touch of fresh memory costs several times what the values in
// it do, and passes over weights and gradients miss the processor's tables at every page.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = std::size_t{4} << 20;

void* system_allocate(std::size_t bytes) {
  const bool is_huge = bytes >= kHugeFrom;
  void* block = nullptr;  // not by aligned_alloc(), which wants whole multiples of the alignment
  if (::posix_memalign(&block, is_huge ? kHugePage : kAlignment, bytes) != 0) block = nullptr;
  if (is_huge && block != nullptr) ::madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish
  if (block == nullptr) {
    throw Error(ErrorCode::device, "cpu: out of memory: tried to allocate " + format_size(bytes));
  }
  return block;
}

/// Sizes that blocks come in: multiples of an eighth of the next lower power of two, at least 64 bytes apart.
std::size_t rounded(std::size_t bytes) {
  std::size_t step = std::bit_floor(bytes | 1) / 8;
  step = step < kAlignment ? kAlignment : step;
  std::size_t up = (bytes + step - 1) / step * step;
  return up == 0 ? kAlignment : up;
}

/// Index of a rounded small size: linear up to 512 bytes, then eight classes a power of two.
std::size_t class_of(std::size_t size) {
  if (size <= 512) return size / kAlignment - 1;
  std::size_t power = static_cast<std::size_t>(std::bit_width(size - 1)) - 1;  // size is in (2^power, 2^(power+1)]
  std::size_t eighth = (size - (std::size_t{1} << power)) >> (power - 3);
  return 8 + (power - 9) * 8 + eighth - 1;
}

/// Up to here classes are 64 bytes apart, and finding one's own is a division by a constant.
constexpr std::size_t kTiny = 512;
std::size_t tiny_class_of(std::size_t bytes) {
  return bytes == 0 ? 0 : (bytes - 1) / kAlignment;
}

struct FreeBlock {
  FreeBlock* next;
};

struct SmallCache {
  std::array<FreeBlock*, kClasses> free;
  std::array<std::uint32_t, kClasses> count;
  bool closed;  // the thread is ending: no caching any more
};
thread_local constinit SmallCache small_cache{};

/// Empties the thread's cache when the thread ends. Separate, so that the hot path needs no initialisation check.
struct CacheCloser {
  ~CacheCloser() {
    small_cache.closed = true;
    for (FreeBlock*& list : small_cache.free) {
      while (list != nullptr) std::free(std::exchange(list, list->next));
    }
  }
};

void keep_until_thread_ends() {
  thread_local CacheCloser closer;
}

class LargeCache {
 public:
  void* take(std::size_t size) {
    std::lock_guard lock(mutex_);
    auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    cached_ -= size;
    return block;
  }
  bool give(void* block, std::size_t size) {
    std::lock_guard lock(mutex_);
    if (cached_ + size > kMaxLargeCached) return false;
    free_[size].push_back(block);
    cached_ += size;
    return true;
  }
  void trim() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
    }
    free_.clear();
    cached_ = 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::size_t cached_ = 0;
};

/// Never destroyed: tensors of static lifetime are freed after it would be.
LargeCache& large_cache() {
  static auto* cache = new LargeCache;
  return *cache;
}

}  // namespace

namespace {

void* allocate_of_class(std::size_t index, std::size_t size) {
  FreeBlock*& list = small_cache.free[index];
  if (list == nullptr) return system_allocate(size);
  --small_cache.count[index];
  return std::exchange(list, list->next);
}

void free_of_class(void* block, std::size_t index) noexcept {
  if (small_cache.count[index] >= kMaxPerClass) return std::free(block);
  if (small_cache.count[index]++ == 0) keep_until_thread_ends();
  auto* free_block = static_cast<FreeBlock*>(block);
  free_block->next = small_cache.free[index];
  small_cache.free[index] = free_block;
}

}  // namespace

void* host_allocate(std::size_t bytes) {
  if (kCache && bytes <= kTiny) {
    const std::size_t index = tiny_class_of(bytes);
    return allocate_of_class(index, (index + 1) * kAlignment);
  }
  std::size_t size = rounded(bytes);
  if (!kCache) return system_allocate(size);
  if (size <= kSmall) return allocate_of_class(class_of(size), size);
  void* block = large_cache().take(size);
  return block != nullptr ? block : system_allocate(size);
}

void host_free(void* block, std::size_t bytes) noexcept {
  if (!kCache || small_cache.closed) return std::free(block);
  if (bytes <= kTiny) return free_of_class(block, tiny_class_of(bytes));
  std::size_t size = rounded(bytes);
  if (size <= kSmall) return free_of_class(block, class_of(size));
  if (!large_cache().give(block, size)) std::free(block);
}

void host_trim() noexcept {
  large_cache().trim();
}

}  // namespace core

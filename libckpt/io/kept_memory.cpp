#include "libckpt/io/kept_memory.h"

#include <atomic>
#include <mutex>

namespace ckpt {
namespace {

std::atomic<std::uint64_t> limit = 128ULL << 20;
constexpr std::uint64_t kPartCopied = 5;  ///< one of so many

}  // namespace

void limit_read_memory(std::uint64_t bytes) {
  limit = bytes;
}

namespace detail {

std::uint64_t most_copied() {
  return limit / kPartCopied;
}

std::uint64_t most_kept() {
  const std::uint64_t all = limit;  // once: another thread may change it meanwhile
  return all - all / kPartCopied;
}

/// All that hold something, the one that was used last first.
class Keepers {
 public:
  static Keepers& all() {
    static auto& keepers = *new Keepers();
    return keepers;
  }

  void use(const Keeper& keeper, std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    remove(keeper);
    keeper.place_ = list_.insert(list_.begin(), &keeper);
    keeper.listed_ = true;
    keeper.bytes_ = bytes;
    bytes_ += bytes;
    for (auto at = list_.end(); bytes_ > most_kept() && at != std::next(list_.begin());) {
      const Keeper& oldest = **--at;
      if (!oldest.let_go()) continue;
      ++at;
      remove(oldest);
    }
  }

  void forget(const Keeper& keeper) {
    std::lock_guard lock(mutex_);
    remove(keeper);
  }

 private:
  void remove(const Keeper& keeper) {
    if (!keeper.listed_) return;
    list_.erase(keeper.place_);
    keeper.listed_ = false;
    bytes_ -= keeper.bytes_;
  }

  std::mutex mutex_;
  std::list<const Keeper*> list_;
  std::uint64_t bytes_ = 0;
};

void Keeper::used(std::uint64_t bytes) const {
  Keepers::all().use(*this, bytes);
}

void Keeper::forget() const {
  Keepers::all().forget(*this);
}

}  // namespace detail

}  // namespace ckpt

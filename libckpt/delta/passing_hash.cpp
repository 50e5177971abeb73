#include "libckpt/delta/passing_hash.h"

#include <algorithm>
#include <utility>

#include "libckpt/io/scratch.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kBrought = 512ULL << 10;  // those of two sources stay near the processor, and disks read well

}  // namespace

void PassingHash::note(std::uint64_t begin, Bytes bytes, std::shared_ptr<const void> owner) {
  std::unique_lock lock(mutex_);
  if (begin < next_) return;
  waiting_.insert_or_assign(begin, Part{bytes, std::move(owner)});
  if (busy_) return;
  busy_ = true;
  while (!waiting_.empty() && waiting_.begin()->first <= next_) {
    const auto taken = waiting_.extract(waiting_.begin());
    if (taken.key() < next_) continue;
    lock.unlock();
    hasher_.update(taken.mapped().bytes);
    lock.lock();
    next_ += taken.mapped().bytes.size();
  }
  busy_ = false;
}

std::optional<Hash128> PassingHash::of(std::uint64_t size) const {
  const std::lock_guard lock(mutex_);
  return next_ == size && !busy_ ? std::optional(hasher_.finish()) : std::nullopt;
}

PassingPart::PassingPart(const SourcePtr& source, std::uint64_t begin, std::uint64_t length,
                         std::shared_ptr<PassingHash> hash)
    : source_(*source), begin_(begin), hash_(std::move(hash)) {
  if (const Bytes memory = source->memory(); !memory.empty()) {
    bytes_ = memory.subspan(begin, length);
    owner_ = source;
    return;
  }
  const auto room = std::make_shared<const Scratch>(length);
  bytes_ = room_ = room->bytes();
  owner_ = room;
}

void PassingPart::bring(std::uint64_t end) {
  while (there_ < end) {
    const std::uint64_t size = std::min(kBrought, bytes_.size() - there_);
    if (!room_.empty()) source_.read(begin_ + there_, room_.subspan(there_, size));
    if (hash_ != nullptr) hash_->note(begin_ + there_, bytes_.subspan(there_, size), owner_);
    there_ += size;
  }
}

}  // namespace ckpt::detail

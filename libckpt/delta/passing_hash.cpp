#include "libckpt/delta/passing_hash.h"

#include <algorithm>
#include <utility>

#include "libckpt/io/scratch.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kBrought = 512ULL << 10;  // those of two sources stay near the processor, and disks read well
constexpr std::uint64_t kMostCopied = 64ULL << 20;

}  // namespace

PassingHash::PassingHash(std::uint64_t size) : size_(size) {
  if (size == 0) found_ = hash128(Bytes());
}

void PassingHash::note(std::uint64_t begin, Bytes bytes, std::shared_ptr<const void> owner) {
  std::unique_lock lock(mutex_);
  if (begin + bytes.size() <= next_) return;
  if (busy_ || begin > next_) return keep(begin, bytes, std::move(owner));
  busy_ = true;
  update(lock, begin, bytes);
  while (!waiting_.empty() && waiting_.begin()->first <= next_) {
    const auto taken = waiting_.extract(waiting_.begin());
    copied_ -= taken.mapped().copied;
    update(lock, taken.key(), taken.mapped().bytes);
  }
  busy_ = false;
}

void PassingHash::keep(std::uint64_t begin, Bytes bytes, std::shared_ptr<const void> owner) {
  Part& part = waiting_[begin];
  if (part.bytes.size() >= bytes.size()) return;
  copied_ -= part.copied;
  part = {bytes, std::move(owner)};
  if (part.owner != nullptr) return;
  if (copied_ + bytes.size() > kMostCopied) {
    waiting_.erase(begin);
    return;
  }
  const auto copy = std::make_shared<const core::ByteVector>(bytes.begin(), bytes.end());
  part = {*copy, copy, bytes.size()};
  copied_ += bytes.size();
}

/// Those that are new of them.
void PassingHash::update(std::unique_lock<std::mutex>& lock, std::uint64_t begin, Bytes bytes) {
  if (begin + bytes.size() <= next_) return;
  bytes = bytes.subspan(next_ - begin);
  lock.unlock();
  if (hasher_ == nullptr) hasher_ = std::make_unique<Hasher128>();
  hasher_->update(bytes);
  lock.lock();
  next_ += bytes.size();
  if (next_ < size_) return;
  found_ = hasher_->finish();
  hasher_.reset();
}

std::optional<Hash128> PassingHash::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
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

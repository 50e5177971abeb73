#include "libcore/optim/detail/step_copies.h"

#include <iterator>

#include "libcore/backend/cpu/optimizer/step_grain.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/base/stream_copy.h"

namespace core::detail {

thread_local StepCopies* StepCopies::current_ = nullptr;

void StepCopies::add(const void* from, void* to, std::size_t bytes) {
  blocks_.insert_or_assign(static_cast<const std::byte*>(from), Block{static_cast<std::byte*>(to), bytes});
}

void StepCopies::copy(const void* written, std::int64_t count, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(written);
  const auto after = blocks_.upper_bound(from);
  if (from == nullptr || after == blocks_.begin()) return;
  auto& [begin, block] = *std::prev(after);
  const auto at = static_cast<std::size_t>(from - begin);
  const std::size_t bytes = static_cast<std::size_t>(count) * size;
  if (at >= block.bytes || bytes > block.bytes - at) return;
  block.in_order = block.in_order && at == block.copied;
  if (!block.in_order) return;
  parallel_for(count, kStepGrain, [&](std::int64_t first, std::int64_t last) {
    const std::size_t part = static_cast<std::size_t>(first) * size;
    stream_copy(block.to + at + part, from + part, static_cast<std::size_t>(last - first) * size);
    end_stream_copies();
  });
  block.copied += bytes;
}

bool StepCopies::made(const void* from) const {
  const auto found = blocks_.find(static_cast<const std::byte*>(from));
  return found != blocks_.end() && found->second.in_order && found->second.copied == found->second.bytes;
}

void StepCopies::forget() {
  blocks_.clear();
}

}  // namespace core::detail

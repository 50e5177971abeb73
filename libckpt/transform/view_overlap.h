#pragma once
// Which views of one storage share elements. Columns of a matrix, or the thirds of a fused weight, lie between each
// other without touching; only views that really share elements have to stay together. Internal to compact. Thread
// safety: pure. Use: std::vector<std::vector<ViewSpan>> parts = part_views(spans);

#include <cstdint>
#include <vector>

#include "libckpt/entry.h"

namespace ckpt::detail {

/// The bytes of its storage from the first to behind the last that a view touches; empty for a view without elements.
struct ViewSpan {
  EntryPtr entry;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// REQUIRES: the entry has a view of whole bytes that lies inside its storage.
ViewSpan span_of(const EntryPtr& entry);

/// Groups of views that share elements, directly or through others; empty ones together, at the end. Where telling
/// would cost too much, views whose spans overlap count as sharing.
std::vector<std::vector<ViewSpan>> part_views(std::vector<ViewSpan> spans);

}  // namespace ckpt::detail

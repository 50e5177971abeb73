#pragma once
// The way from the top of a tree to what value_at() finds there, for those that change it. Internal.
// Thread safety: pure. Never throws but for memory. Use: if (auto way = find_path(root, "epoch")) way->back().child();

#include <optional>
#include <string_view>
#include <vector>

#include "libckpt/value.h"

namespace ckpt::detail {

/// One step down: a dict or a sequence, and which of its items is meant.
struct PathStep {
  const Value* parent;
  std::size_t index;
  const Value& child() const;
};

/// From the outermost step to the last; empty for the empty path. nullopt where nothing is. It points into `root`.
std::optional<std::vector<PathStep>> find_path(const Value& root, std::string_view path);

}  // namespace ckpt::detail

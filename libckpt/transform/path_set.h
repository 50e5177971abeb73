#pragma once
// Paths of a tree, to ask of many others whether they lie at or below one of them. Internal.
// Thread safety: immutable. Use: PathSet optimizers({{Value::text("optimizer")}}); if (optimizers.covers(path)) ...

#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/value.h"

namespace ckpt::detail {

class PathSet {
 public:
  explicit PathSet(std::vector<std::vector<Value>> paths);
  /// True when `path` is one of them or goes on behind one.
  bool covers(const std::vector<Value>& path) const;

 private:
  std::vector<std::vector<Value>> paths_;
  std::unordered_multimap<std::string, std::size_t> by_text_;  ///< steps of other types may have one text
};

}  // namespace ckpt::detail

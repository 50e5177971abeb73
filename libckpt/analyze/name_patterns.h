#pragma once
// Many pairs of names as few patterns: "layer1.0.w" -> "stages.0.0.w" and its like become "layer{#i}.*" ->
// "stages.{i-1}.*". Every result is tried on all names and put right by exact pairs where it would be wrong. Internal
// to align. Thread safety: pure. Use: auto patterns = rename_patterns(pairs, true);

#include <string>
#include <utility>
#include <vector>

namespace ckpt::detail {

using NamePair = std::pair<std::string, std::string>;

/// `wanted` has every name that is there with what it is to become (or stay). The result is the names of one rename
/// rule (first match counts), as few as were found; empty when nothing changes.
std::vector<NamePair> rename_patterns(const std::vector<NamePair>& wanted, bool generalize);

/// A name that becomes several, as patterns: "{#i}.qkv" -> "{i}.q", "{i}.k", "{i}.v".
struct ManyNames {
  std::string from;
  std::vector<std::string> to;
};

}  // namespace ckpt::detail

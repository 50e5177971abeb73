#pragma once
// select: part of a checkpoint by what its tensors and values are called and are.
// Thread safety: pure. Use: ckpt::select(checkpoint, {.include = {"model.*"}, .exclude = {"*.running_mean"}});

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// Selectors (selector.h) over the dotted names that `ckpt ls` shows; one that names a dict or a module ("optimizer")
/// means all below it. Lists, tuples and objects are kept or dropped whole, and no predicate holds for them.
struct SelectOptions {
  std::vector<std::string> include = {};  ///< empty = everything
  std::vector<std::string> exclude = {};  ///< wins over include
  std::string at = {};  ///< dotted path; names are counted from there and the rest stays; "" = whole file
};

struct SelectChanges {
  std::uint64_t tensors = 0;
  std::uint64_t tensors_kept = 0;
  std::uint64_t values = 0;  ///< other leaves of the tree
  std::uint64_t values_kept = 0;
};

/// Order is kept; dicts that lose everything go too; versions go with the last key of their module. Errors: Error(key)
/// naming a selector that matches nothing, or when nothing is left; Error(usage) without any selector or for a bad one.
Checkpoint select(const Checkpoint& checkpoint, const SelectOptions& options, SelectChanges* changes = nullptr);

}  // namespace ckpt

#pragma once
// A checkpoint's tree with tensors replaced, renamed, removed and added by dotted name. Aliased containers become
// copies. Thread safety: pure. Use: Value root = rebuild_tree(old_root, changes, added);

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {

/// What becomes of one tensor.
struct TensorChange {
  std::string name;      ///< dotted, as it was
  std::string new_name;  ///< the same unless it was renamed
  EntryPtr entry;        ///< null: removed
};

struct NewTensor {
  std::string name;
  EntryPtr entry;
};

/// `changes` are in the order of list_entries(root), one for each. A tensor whose new name leaves its dict moves to the
/// end of the dict that fits. Errors: Error(collision) naming a key that would stand twice; Error(unsupported) naming a
/// tensor that cannot leave the list or object it is in, or has no dict to go to.
Value rebuild_tree(const Value& root, const std::vector<TensorChange>& changes, std::vector<NewTensor> added);

}  // namespace ckpt::detail

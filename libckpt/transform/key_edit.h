#pragma once
// What prefix and rename have in common: new keys for the state dicts of a tree, all computed and checked before
// anything is built. Per-module versions (_metadata) and the names in optimizer states follow their keys.
// Thread safety: pure. Use: Checkpoint renamed = rewrite_keys(checkpoint, list_weights(root), edit, &changes);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/key_changes.h"

namespace ckpt::detail {

struct KeyEdit {
  /// New name of a key, or the same. An empty answer is refused.
  std::function<std::string(const std::string&)> key;
  /// New path of a module in _metadata ("" is the root module), or the same.
  std::function<std::string(const std::string&)> module;
  /// Whether the names that optimizers keep follow; not when one dict of several was named.
  bool param_names = true;
};

/// The dicts that a transform acts on: those that hold weights (list_weights()); with `at`, the dict there, of whatever
/// kind, or, when that holds no tensor itself, those below it. Error(key) when there is nothing at `at`, or no such
/// dict.
std::vector<StateDictRef> state_dicts_in_scope(const Value& root, const std::string& at);

/// _metadata with its module paths renamed. Where two paths meet, the one that moved wins: stripping `module.` puts the
/// module's own version at "" in place of the wrapper's.
Value rename_modules(const Value& metadata, const std::function<std::string(const std::string&)>& module);

/// Applies `edit` to the text keys of `scope`. Errors: Error(collision) naming both keys; Error(refused) for a key
/// that would become empty. Nothing is built when an error is thrown.
Checkpoint rewrite_keys(const Checkpoint& checkpoint, const std::vector<StateDictRef>& scope, const KeyEdit& edit,
                        KeyChanges* changes);

}  // namespace ckpt::detail

#pragma once
// What prefix and rename have in common: new keys for the state dicts of a tree, all computed and checked before
// anything is built. Per-module versions (_metadata) and the names in optimizer states follow their keys.
// Thread safety: pure. Use: Checkpoint renamed = rewrite_keys(checkpoint, model_state_dicts(root), edit, &changes);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
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

/// The dicts that a transform acts on: all state dicts of the tree; with `at`, the dict there, or, when that holds no
/// tensor itself, all below it. Objects are not looked into. Error(key) when there is nothing at `at`, or no state
/// dict.
std::vector<StateDictRef> state_dicts_in_scope(const Value& root, const std::string& at);

/// State dicts that a person may mean: all but those inside the state of an optimizer, outermost first, in file order.
std::vector<StateDictRef> model_state_dicts(const Value& root);

/// Paths of the dicts that are an optimizer's state_dict: {'state': ..., 'param_groups': [...]}.
std::vector<std::vector<Value>> optimizer_paths(const Value& root);
/// The same with the dicts themselves, which live as long as `root`.
using OptimizerValue = std::pair<std::vector<Value>, const Value*>;
std::vector<OptimizerValue> optimizer_values(const Value& root);

/// The only state dict that `at` can mean: the one there; with "", the only one outside optimizer states.
/// Error(usage) lists the candidates when there are several.
StateDictRef only_state_dict(const Value& root, const std::string& at);

/// _metadata with its module paths renamed. Where two paths meet, the one that moved wins: stripping `module.` puts the
/// module's own version at "" in place of the wrapper's.
Value rename_modules(const Value& metadata, const std::function<std::string(const std::string&)>& module);

/// Applies `edit` to the text keys of `scope`. Errors: Error(collision) naming both keys; Error(refused) for a key
/// that would become empty. Nothing is built when an error is thrown.
Checkpoint rewrite_keys(const Checkpoint& checkpoint, const std::vector<StateDictRef>& scope, const KeyEdit& edit,
                        KeyChanges* changes);

}  // namespace ckpt::detail

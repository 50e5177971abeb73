#pragma once
// Names of parameters inside the state of an optimizer, which follow when a model's keys get other names. Three forms:
// numbers with param_names (torch.optim), state and params keyed by names (get_optimizer_state_dict), and flat keys
// ("state.fc.weight.exp_avg", as a distributed checkpoint has them). Internal. Thread safety: pure.
// Use: changed |= rename_in_optimizer(node, dict, rename);

#include <functional>
#include <string>

#include "libckpt/value.h"

namespace ckpt::detail {

using NameChange = std::function<std::string(const std::string&)>;

/// `dict` is a copy of `node` that is being edited: an optimizer whose state is keyed by names, or a group of one.
/// False when it is neither or nothing changed. Errors: Error(collision) naming both names that would become one.
bool rename_in_optimizer(const Value& node, Dict& dict, const NameChange& rename);

/// A key of a flat optimizer with its name changed; the same where the name does not change.
std::string renamed_flat_key(const std::string& key, const NameChange& rename);
/// The same for every key of one. Errors: Error(collision) naming the key that two would become.
bool rename_flat_keys(Dict& dict, const NameChange& rename);

}  // namespace ckpt::detail

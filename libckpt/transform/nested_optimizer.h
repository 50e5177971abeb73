#pragma once
// Optimizer state with flat keys ("state.fc.weight.exp_avg", "param_groups.fc.weight.lr"), as PyTorch writes it for
// distributed checkpoints, in the form that is keyed by names: {'state': {name: slots}, 'param_groups': [...]}.
// Internal. Thread safety: pure. Use: Checkpoint nested = nest_optimizers(checkpoint, "");

#include <string>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {

/// Parameters with the same settings are one group, in the order of the file. With `at`, only what is there or below.
/// The checkpoint itself when it has no such state. Errors: Error(key) when there is nothing at `at`; Error(corrupt)
/// for state of a parameter that has no settings.
Checkpoint nest_optimizers(const Checkpoint& checkpoint, const std::string& at);

}  // namespace ckpt::detail

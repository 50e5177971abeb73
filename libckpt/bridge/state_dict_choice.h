#pragma once
// Finds the state dict that a load means in a file that may hold a whole training run.
// Thread safety: pure. Use: const Dict& d = *choose_state_dict(checkpoint.root, "").dict;

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// The dict at `path`; with an empty path the root when it holds tensors itself, else the only model state in the file.
/// The state of optimizers is never taken for a model's. Errors: Error(key) listing the candidates when there is none
/// or more than one.
StateDictRef choose_state_dict(const Value& root, const std::string& path);

}  // namespace ckpt

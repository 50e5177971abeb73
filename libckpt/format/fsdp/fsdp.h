#pragma once
// Files that the ranks of an FSDP training each wrote with torch.save: of a SHARDED_STATE_DICT, or of DTensors (FSDP2,
// tensor parallelism), joined to whole tensors.
// Thread safety: constant. Use: listed in registry.cpp.

#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kFsdp;

/// Names of the files of the other ranks of the checkpoint that `input` stands for, those that are there.
std::vector<std::string> fsdp_files_beside(const Input& input);

}  // namespace ckpt::detail

#pragma once
// Megatron-LM's checkpoints of the format "torch": the parts of all tensor-parallel and pipeline ranks joined to one
// state dict with the names that Megatron gives an undivided model. Thread safety: constant. Use: listed in
// registry.cpp.

#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kMegatron;

/// Whether a folder was named and this is the file of a rank that stands for it.
bool is_megatron_part(const Input& input);
/// The other files of the checkpoint that `input` stands for, named from the folder around that of `input`.
std::vector<std::string> megatron_files_beside(const Input& input);

}  // namespace ckpt::detail

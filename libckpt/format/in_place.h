#pragma once
// What a save over the model that a checkpoint was read from would refuse, for a dry run to say beforehand.
// Thread safety: pure. Use: check_in_place(checkpoint, "model.safetensors.index.json");

#include <filesystem>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// Nothing where `target` is not what the checkpoint was read from. Errors: Error(corrupt) for an index that does not
/// list all tensors of its files, which the save would drop.
void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target);

}  // namespace ckpt

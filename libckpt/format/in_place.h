#pragma once
// What a save over the model that a checkpoint was read from would refuse, for a dry run to say beforehand.
// And how much of the file it would write. Thread safety: pure. Use: check_in_place(checkpoint,
// "model.safetensors.index.json");

#include <cstdint>
#include <filesystem>
#include <optional>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt {

/// Nothing where `target` is not what the checkpoint was read from. Errors: Error(corrupt) for an index that does not
/// list all tensors of its files, which the save would drop.
void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target);

/// Bytes that a save with SaveOptions::in_place would write where they lie in `target`; nullopt where it writes a whole
/// new file. REQUIRES: `checkpoint` and `options` are those of that save.
std::optional<std::uint64_t> bytes_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target,
                                            const SaveOptions& options);

}  // namespace ckpt

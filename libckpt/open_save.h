#pragma once
// open and save: the two calls that most programs need. A format is found by content when reading, by the name of the
// file (or an option) when writing. Thread safety: any number of calls at once on different targets. Use:
// ckpt::Checkpoint c = ckpt::open("best.pth"); ckpt::save(c, "best.safetensors");

#include <filesystem>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt {

/// Reads the structure of `path` (a file, or a shard index); tensor bytes stay in the file until asked for.
/// Errors: Error(io) when it cannot be read; Error(corrupt | refused | unsupported) with the path as context.
Checkpoint open(const std::filesystem::path& path, const OpenOptions& options = {});

/// Writes a checkpoint through AtomicFile. The target may be the file the checkpoint was read from.
/// Errors: Error(unsupported) listing everything the format cannot hold, before a byte is written; Error(io).
void save(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options = {});

/// What save() does with options.retype. Error(usage) when one pair follows from another; Error(unsupported) for types
/// that cannot be cast.
Checkpoint retype(const Checkpoint& checkpoint, const std::vector<Retype>& pairs);

/// Reads every byte, compares it with what the format recorded, and looks for symbols and code as scan() does. Throws
/// as open() for a file that cannot be read at all.
VerifyResult verify(const std::filesystem::path& path, const OpenOptions& options = {}, const Progress& progress = {});

}  // namespace ckpt

#pragma once
// Reading and writing of GGUF files as checkpoints. Internal to the format.
// Thread safety: pure functions. Use: the row in gguf.cpp.

#include "libckpt/format/format.h"
#include "libckpt/format/gguf/gguf_metadata.h"

namespace ckpt::detail {

/// A file of a split model brings in the others when it is the first one.
Checkpoint read_gguf(const Input& input, const OpenOptions& options);
VerifyResult verify_gguf(const Input& input, const OpenOptions& options, const Progress& progress);
std::vector<Obstacle> gguf_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
void write_gguf(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
/// REQUIRES: the detail has `in_place`.
std::optional<FileEdit> edit_gguf(const Checkpoint& checkpoint, const SaveOptions& options);

}  // namespace ckpt::detail

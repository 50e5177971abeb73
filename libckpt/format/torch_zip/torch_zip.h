#pragma once
// The PyTorch zip format: what torch.save writes since version 1.6. Thread safety: constant.
// Use: detail::kTorchZip.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kTorchZip;

Checkpoint read_torch_zip(const Input& input, const OpenOptions& options);
/// Bytes between the records of the file, and of storages that no tensor needs.
std::uint64_t torch_zip_unused(const Checkpoint& checkpoint);
std::vector<Obstacle> torch_zip_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
void write_torch_zip(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
std::optional<FileEdit> edit_torch_zip(const Checkpoint& checkpoint, const SaveOptions& options);
std::optional<FileEdit> cut_torch_zip(const Input& input);
VerifyResult verify_torch_zip(const Input& input, const OpenOptions& options, const Progress& progress);
}  // namespace ckpt::detail

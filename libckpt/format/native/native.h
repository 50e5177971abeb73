#pragma once
// The native format ".ckpt": an HDF5 file that carries a packed index of everything in its user block.
// FORMAT_NATIVE.md (beside this folder) is its specification. Thread safety: a constant.
// Use: the table of formats (registry.cpp) lists kNative.

#include "libckpt/format/format.h"

namespace ckpt::detail {

struct TensorRow;

extern const Format kNative;

bool detect_native(const Input& input);
Checkpoint read_native(const Input& input, const OpenOptions& options);
/// For open_row().
Checkpoint read_native_row(const Input& input, const OpenOptions& options, TensorRow& row);
void write_native(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
std::optional<FileEdit> edit_native(const Checkpoint& checkpoint, const SaveOptions& options);
/// verify_native() without the helper program: hashes, stamps, padding and parity data.
VerifyResult verify_hashes(const Input& input, const OpenOptions& options);
VerifyResult verify_native(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail

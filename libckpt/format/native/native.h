#pragma once
// The native format ".ckpt": an HDF5 file that carries a packed index of everything in its user block.
// FORMAT_NATIVE.md (beside this folder) is its specification. Thread safety: a constant.
// Use: the table of formats (registry.cpp) lists kNativeFormat.

#include "libckpt/format/format.h"

namespace ckpt {

extern const Format kNativeFormat;

namespace detail {

bool detect_native(const Input& input);
Checkpoint read_native(const Input& input, const OpenOptions& options);
void write_native(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
VerifyResult verify_native(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace detail
}  // namespace ckpt

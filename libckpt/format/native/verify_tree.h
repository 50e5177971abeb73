#pragma once
// Compares the two views of a native file: what the index says and what HDF5 readers see.
// Thread safety: pure. Use: compare_views(*file, input, options, result);

#include "libckpt/format/native/opened_file.h"

namespace ckpt::detail {

/// Adds a finding for every tensor that the two describe differently; a note when there is no helper to ask.
void compare_views(const OpenedNative& file, const Input& input, const OpenOptions& options, VerifyResult& result);

}  // namespace ckpt::detail

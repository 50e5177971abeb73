#pragma once
// Parts of many ranks as ordinary `.ckpt` files behind an index (parts_index.h). Tensors are put together from their
// boxes while they are read. Read here; written by libckpt/dist. Thread safety: constant. Use:
// detail::kParts.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kParts;

/// One of the parts. Errors: as open_part().
Input open_native_part(const std::filesystem::path& folder, const std::string& file, const OpenOptions& options);
Checkpoint read_parts_checkpoint(const Input& input, const OpenOptions& options);
VerifyResult verify_parts(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail

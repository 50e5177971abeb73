#pragma once
// Parts of many ranks as ordinary `.ckpt` files behind an index (parts_index.h). Tensors are put together from their
// boxes while they are read. Ranks write them by libckpt/dist, one process all of them here. Thread safety: constant.
// Use: detail::kParts.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kParts;

/// One of the parts. Errors: as open_part().
Input open_native_part(const std::filesystem::path& folder, const std::string& file, const OpenOptions& options);
/// What has no place in dotted names.
std::vector<Obstacle> parts_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
/// The folder `path`, through AtomicFolder, in options.shards parts, as dcp/rank_layout.h says. An old folder is
/// replaced as a whole, if it holds parts alone.
void write_parts(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
Checkpoint read_parts_checkpoint(const Input& input, const OpenOptions& options);
VerifyResult verify_parts(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail

#pragma once
// How a whole checkpoint is spread over the data files of a folder. Thread safety: pure.
// Use: Box box = shard_box(shape, 0, rank, ranks);

#include <filesystem>

#include "libckpt/checkpoint.h"
#include "libckpt/format/dcp/flatten.h"
#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/dcp/tiling.h"

namespace ckpt::detail {

/// What rank `rank` of `ranks` has of a tensor that is cut along `dim`, as torch.distributed's Shard(dim) does it:
/// pieces of ceil(n / ranks), the last ones shorter or empty. REQUIRES: dim < shape.size(), ranks > 0.
Box shard_box(const core::Shape& shape, std::size_t dim, std::uint64_t rank, std::uint64_t ranks);

/// Warns of what of a checkpoint that can be written has no place in the folder of a distributed one.
void report_losses(const Checkpoint& checkpoint, const FlatTree& tree, const SaveOptions& options);

/// Writes `.metadata` and the list of parts, each by a rename of its own, the metadata last. Returns their bytes.
std::uint64_t write_index(const std::filesystem::path& folder, const DcpMetadata& metadata, const PartsFile& parts,
                          const SaveOptions& options);

}  // namespace ckpt::detail

#pragma once
// PyTorch distributed checkpoints (DCP): a folder with a pickle `.metadata` and files `*.distcp` that hold, back to
// back, one PyTorch archive for every piece of every tensor. Tensors are put together from their pieces while they are
// read. Written are folders that torch.distributed.checkpoint loads as they are. Thread safety: constant. Use:
// detail::kDcp.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kDcp;

Checkpoint read_dcp(const Input& input, const OpenOptions& options);
std::vector<Obstacle> dcp_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
/// The folder `path`, through AtomicFolder, in options.shards parts. Of a checkpoint that was read from that very
/// folder, and whose tensors are still those, the `.metadata` alone.
void write_dcp(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);
VerifyResult verify_dcp(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail

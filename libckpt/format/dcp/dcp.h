#pragma once
// PyTorch distributed checkpoints (DCP): a folder with a pickle `.metadata` and files `*.distcp` that hold, back to
// back, one PyTorch archive for every piece of every tensor. Tensors are put together from their pieces while they are
// read. Read only. Thread safety: constant. Use: detail::kDcp.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kDcp;

Checkpoint read_dcp(const Input& input, const OpenOptions& options);
VerifyResult verify_dcp(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail

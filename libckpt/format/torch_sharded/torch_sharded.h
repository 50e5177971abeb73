#pragma once
// Sharded PyTorch checkpoints: pytorch_model.bin.index.json and the files that it names, read as one model. Read only.
// Thread safety: constant. Use: detail::kTorchSharded.read(input, options)

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kTorchSharded;

}  // namespace ckpt::detail

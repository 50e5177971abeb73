#pragma once
// The parts of a checkpoint of Megatron-LM as one dict of weights, lazily. Thread safety: pure.
// Use: Value weights = join_megatron(read_megatron_files(input, options));

#include "libckpt/format/megatron/megatron_files.h"

namespace ckpt::detail {

/// Layers are numbered through all stages; attention's fused tensors have the order of checkpoint_version 2 and above.
/// Reads values of tensors that no rule knows: they have to be the same on all ranks. Errors: Error(corrupt) for parts
/// that do not fit together; Error(unsupported) naming a tensor that no rule knows, and for models whose order of heads
/// cannot be told. All name the tensor.
Value join_megatron(const MegatronFiles& files);

}  // namespace ckpt::detail

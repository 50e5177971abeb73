#pragma once
// The parts of all ranks as one tree of whole tensors, lazily: no value is read. Thread safety: pure.
// Use: Value root = join_fsdp(read_fsdp_files(input, options));

#include "libckpt/format/fsdp/fsdp_files.h"

namespace ckpt::detail {

/// The tree of rank 0 with every sharded tensor whole, also in the optimizer. Errors: Error(corrupt) naming the tensor
/// and the piece that is missing, overlaps or does not fit; Error(unsupported) for flat parameters (LOCAL_STATE_DICT),
/// whose shapes no file says.
Value join_fsdp(const FsdpFiles& files);

}  // namespace ckpt::detail

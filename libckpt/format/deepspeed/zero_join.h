#pragma once
// The parts of a ZeRO checkpoint as one dict of weights, lazily: no value is read. Thread safety: pure.
// Use: Value weights = join_zero(read_zero_files(input, options));

#include "libckpt/format/deepspeed/zero_files.h"

namespace ckpt::detail {

/// Buffers, frozen parameters, trained ones, shared ones, in the order of DeepSpeed's script. Errors: Error(corrupt)
/// naming the parameter whose values are not all there, or the group that has some left over.
Value join_zero(const ZeroFiles& files);

}  // namespace ckpt::detail

#pragma once
// Arrays that Paddle cuts into slices, as a pickle before protocol 4 cannot hold more than 4 GiB at once: parameters of
// a gibibyte and more of `paddle.save(..., protocol=2)`. Thread safety: pure.
// Use: root = with_slices_joined(root);

#include "libckpt/value.h"

namespace ckpt::detail {

/// A dict with 'UnpackBigParamInfor@@' as paddle.load makes it: without that table and the slices, "fc.w@@.0" and on,
/// and with what they make, "fc.w", at its end. Anything else as it is. Nothing is read. Errors: Error(corrupt) for a
/// table that is none, for slices that are missing, of several types or listed twice, and where they do not make the
/// shape.
Value with_slices_joined(const Value& root);

}  // namespace ckpt::detail

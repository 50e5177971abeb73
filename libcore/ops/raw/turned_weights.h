#pragma once
// Weights of linear layers turned, (in, out), while they stay as they are: turning one in registers at each call costs
// half as much as a product of few rows. Of a weight that was met once nothing is kept, as training changes it.
// Thread safety: each thread has a list of its own; the turned bytes are shared (packed_weights.h).
// Use: if (const float* turned = raw::turned_weight(weight)) multiply(x, turned);

#include "libcore/tensor/tensor.h"

namespace core::raw {

/// The values of `weight`, f32, dense, (n, k), as (k, n); null where it is new or changed since this thread's last
/// call. Valid until the thread's next call.
const float* turned_weight(const Tensor& weight);

}  // namespace core::raw

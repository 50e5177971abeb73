#pragma once
// What the files of losses share. Internal to ops.
// Use: return detail::reduced(abs(x - target), reduction);

#include "libcore/ops/loss.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// The mean, the sum, or x itself.
Tensor reduced(const Tensor& x, Reduction reduction);
/// PyTorch's warning about sizes that broadcast.
void warn_sizes(const Tensor& x, const Tensor& target);

}  // namespace core::detail

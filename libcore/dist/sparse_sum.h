#pragma once
// The sum of sparse tensors over all ranks: every rank gets the places and values of all and adds them up, rank by
// rank, as PyTorch's Gloo group does, so that the bits are its. Internal to dist. Thread safety: pure functions.
// Use: if (tensor.is_sparse()) return sum_sparse(tensor, group, options);

#include "libcore/dist/collectives.h"

namespace core::distributed {

/// In place; afterwards each place is there once. Errors: Error(runtime) with PyTorch's texts for reductions other than
/// the sum, and for ranks whose tensors have other sparse dimensions.
Work sum_sparse(const Tensor& tensor, const Group& group, const ReduceOptions& options);

/// tensor /= number, in place, of sparse tensors too.
void divide_by(const Tensor& tensor, double number);

}  // namespace core::distributed

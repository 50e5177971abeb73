#pragma once
// Differentiable operations that only other operations use. Internal to autograd.

#include "libcore/tensor/tensor.h"

namespace core {

/// Other sizes for a fresh dense result; prints as UnsafeViewBackward0 and is no view to the user.
Tensor unsafe_view(const Tensor& x, const Shape& sizes);

/// The first two dimensions swapped; prints as TransposeBackward1, as PyTorch's in-place transpose of a fresh result.
Tensor transposed_in_place(const Tensor& x);

namespace detail {
/// Error(runtime) of scatter and its kin, and of index_add, for values of another dtype.
void check_scatter_dtype(const Tensor& x, const Tensor& from);
void check_index_add_dtype(const Tensor& x, const Tensor& from);
}  // namespace detail

}  // namespace core

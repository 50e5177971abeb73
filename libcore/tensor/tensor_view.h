#pragma once
// Views that operations make of results of their own. Internal. Thread safety: pure functions.

#include "libcore/tensor/tensor.h"

namespace core {

/// Other sizes for a fresh dense result; prints as UnsafeViewBackward0 and is no view to the user.
Tensor unsafe_view(const Tensor& x, const Shape& sizes);

/// The first two dimensions swapped; prints as TransposeBackward1, as PyTorch's in-place transpose of a fresh result.
Tensor transposed_in_place(const Tensor& x);

}  // namespace core

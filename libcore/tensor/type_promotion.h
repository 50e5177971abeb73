#pragma once
// The dtype and the shape of an operation between two tensors, by PyTorch's rules. Thread safety: pure functions.
// Use: core::DType dtype = core::result_type(a, b); core::Shape sizes = core::broadcast_shapes(a.sizes(), b.sizes());

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// The dtype of an operation between two tensors by PyTorch's promotion rules (0-dim tensors are weaker).
DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensor& a, Scalar b);
DType promote_types(DType a, DType b);
/// Whether results of `from` may be written into a tensor of `to`: not complex into real, float into integer, or a
/// number into bool.
bool can_cast(DType from, DType to);

/// Error(runtime) "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1".
Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace core

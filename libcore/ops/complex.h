#pragma once
// Complex tensors taken apart and put together, as torch.X. libcore holds, copies, prints and saves complex tensors; it
// does not compute with them, and they have no gradients: take them apart first.
// Thread safety: pure functions. Use: core::Tensor values = core::linalg::eigvals(a), size = core::hypot(
// core::real(values), core::imag(values));

#include "libcore/tensor/tensor.h"

namespace core {

/// A view of complex numbers as pairs: (...) to (..., 2).
/// Error(type) "view_as_real is only supported for complex tensors".
Tensor view_as_real(const Tensor& x);

/// A view of pairs as complex numbers: (..., 2) to (...). Errors: PyTorch's texts for other dtypes and shapes;
/// Error(not_implemented) for tensors that ask for gradients.
Tensor view_as_complex(const Tensor& x);

/// Views of the parts. real() of a real tensor is that tensor; imag() of one is Error(type) "imag is not implemented
/// for tensors with non-complex dtypes.".
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);

/// Of two tensors of the same float type; shapes broadcast.
/// Error(not_implemented) "Expected both inputs to be Half, Float or Double tensors but got Long and Long".
Tensor complex(const Tensor& real, const Tensor& imag);
bool is_complex(const Tensor& x);

}  // namespace core

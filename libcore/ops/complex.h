#pragma once
// Complex tensors, as torch.X. complex64 and complex128 compute on the CPU: arithmetic, functions, sums and products,
// comparisons for equality, matrix products, with gradients by PyTorch's convention (a step against the gradient of a
// real loss lowers it). What has no order (maximum, sort, clamp, <) is refused with PyTorch's text. complex32 has what
// PyTorch has of it on the CPU: conversions, parts, +, -, *, abs, sgn, ==, where, addcmul, random numbers; no division,
// sums, functions: "\"sum_cpu\" not implemented for 'ComplexHalf'". On CUDA devices, which have no complex kernels, all
// is only held and moved: "\"mul\" not implemented for 'ComplexFloat' on cuda:0". A complex number is a tensor without
// dimensions: x * complex_number(0, 1). Optimizers update real parameters alone. Thread safety: pure functions. Use:
// core::Tensor z = core::complex(a, b) * core::complex_number(0, 1), size = core::abs(z);

#include <complex>
#include <optional>

#include "libcore/backend/complex_elements.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// A view of complex numbers as pairs: (...) to (..., 2).
/// Error(type) "view_as_real is only supported for complex tensors".
Tensor view_as_real(const Tensor& x);

/// A view of pairs as complex numbers: (..., 2) to (...). Errors: PyTorch's texts for other dtypes and shapes.
Tensor view_as_complex(const Tensor& x);

/// Views of the parts. real() of a real tensor is that tensor; imag() of one is Error(type) "imag is not implemented
/// for tensors with non-complex dtypes.".
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);

/// Of two tensors of the same float type; shapes broadcast.
/// Error(not_implemented) "Expected both inputs to be Half, Float or Double tensors but got Long and Long".
Tensor complex(const Tensor& real, const Tensor& imag);
/// abs * (cos(angle) + i sin(angle)); errors as complex().
Tensor polar(const Tensor& abs, const Tensor& angle);

/// x with the sign of the imaginary parts turned, computed at once; a real tensor itself.
Tensor conj(const Tensor& x);
inline Tensor conj_physical(const Tensor& x) {
  return conj(x);
}
/// The conjugate of the transpose of each matrix. Error(runtime) "tensor.adjoint() is only supported on matrices or
/// batches of matrices. Got 1-D tensor."
Tensor adjoint(const Tensor& x);
/// x itself: conj() leaves nothing to be done later.
Tensor resolve_conj(const Tensor& x);
/// The angle in radians, in (-pi, pi]; of a real number 0 or pi, NaN of NaN.
Tensor angle(const Tensor& x);

/// A number for arithmetic with tensors, as weak in type promotion as Python's: complex64 with float32 and complex64,
/// complex128 with float64.
Tensor complex_number(double real, double imag = 0);
/// The only element as a complex number. Error(runtime) "a Tensor with 2 elements cannot be converted to Scalar".
std::complex<double> complex_item(const Tensor& x);
bool is_complex(const Tensor& x);

}  // namespace core

#pragma once
// Memory of tensors without history: allocation, views, copies, casts and moves. Thread safety: pure functions; *_into
// write their first argument. Errors: PyTorch's texts. Use: core::Tensor dense = core::raw::contiguous(x);

#include <cstddef>
#include <cstdint>

#include "libcore/backend/backend.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

/// Dense row-major, uninitialised.
Tensor make(const Shape& sizes, DType dtype, Backend& backend);
Tensor make_strided(const Shape& sizes, const Shape& strides, DType dtype, Backend& backend);

/// Uninitialised, laid out like `like` (its strides when dense, else row-major).
Tensor make_like(const Tensor& like, DType dtype);

/// The same on another device, contents undefined.
Tensor make_like_on(const Tensor& like, Backend& backend);
bool is_row_major(const Shape& sizes, const Shape& strides);
Tensor view(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset);

/// Shares storage and version counter.
Tensor alias(const Tensor& x);
inline Backend& backend_of(const Tensor& x) {
  return x.storage()->backend();
}
/// Same dtype and device give the same tensor.
Tensor cast(const Tensor& x, DType dtype);

/// non_blocking: between pinned memory and a device the call may return before the bytes have moved; on the way to the
/// host the new tensor is pinned, and may be read after a synchronisation.
enum class Waiting { blocking, non_blocking };
Tensor move(const Tensor& x, Backend& to, Waiting waiting = Waiting::blocking);
Tensor contiguous(const Tensor& x);

/// Keeps dense layouts, as PyTorch's clone.
Tensor clone(const Tensor& x);

/// Broadcasts, casts and crosses devices.
void copy_into(const Tensor& out, const Tensor& in);
/// Error(runtime) "value cannot be converted to type uint8_t without overflow"; of halves too, but for one element, as
/// PyTorch.
void fill_into(const Tensor& out, Scalar value);

/// Whether a type cannot hold `value`: integers, and f32 and complex64 where the value is finite. As PyTorch, a
/// negative integer goes into an unsigned type when its magnitude fits (it wraps), a negative float does not; halves
/// become infinite, which some writes refuse (below).
bool overflows(Scalar value, DType dtype);
/// Error(runtime) as fill_into() where it does.
void check_fits(Scalar value, DType dtype);
/// As above, and of halves "... to type c10::Half without overflow": what is written in place of some elements.
void check_fits_halves_too(Scalar value, DType dtype);

/// Whether operations of `dtype` take the factor `name`; negated: as sub(), which multiplies with -factor.
/// Errors(runtime): "For integral input tensors, argument alpha must not be a floating point number.", "Boolean alpha
/// only supported for Boolean results."; as check_fits_halves_too().
void check_factor(Scalar factor, DType dtype, const char* name = "alpha", bool negated = false);
/// As PyTorch casts the factors of products: integers lose what stands behind the point. Error as
/// check_fits_halves_too().
Scalar product_factor(Scalar factor, DType dtype);

/// One element of `dtype` (at most 8 bytes, complex128 16) holding the value.
void store_scalar(void* to, Scalar value, DType dtype);

/// A view without dimension `dim`. REQUIRES: dim and index are inside x.
Tensor part(const Tensor& x, std::size_t dim, std::int64_t index);

/// A 0-dim tensor that is as weak as a number in type promotion.
Tensor wrapped(Scalar value, Backend& backend);

}  // namespace core::raw

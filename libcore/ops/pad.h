#pragma once
// Padding a tensor's border, as torch.nn.functional.pad. Thread safety: pure functions.
// Use: core::Tensor y = core::pad(x, {1, 1, 2, 0}, core::PaddingMode::reflect);

#include <string_view>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// What lies around the image: zeros (a constant), its mirror image, its border repeated, or its other side.
enum class PaddingMode { zeros, reflect, replicate, circular };

/// Error(value) "padding_mode must be one of {...}, but got padding_mode='foo'".
PaddingMode parse_padding_mode(std::string_view text);
std::string_view name(PaddingMode mode);

/// `pads`: before and after the last dimension, then the one before it, and so on. `value` is for zeros alone; negative
/// pads cut.
/// Errors(runtime): PyTorch's texts for pads that are longer than the mirror or the other side allow.
Tensor pad(const Tensor& x, const Shape& pads, PaddingMode mode = PaddingMode::zeros, Scalar value = 0);
Tensor pad_constant(const Tensor& x, const Shape& pads, Scalar value = 0);
inline Tensor constant_pad_nd(const Tensor& x, const Shape& pads, Scalar value = 0) {
  return pad_constant(x, pads, value);
}

}  // namespace core

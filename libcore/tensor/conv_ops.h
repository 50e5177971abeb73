#pragma once
// Convolutions of one to three dimensions and their transposes, patches and back, as torch.nn.functional. conv2d itself
// is in nn_ops.h. Thread safety: pure functions.
// Use: core::Tensor y = core::conv1d(x, w, b, {.stride = {2}, .padding = {1}});
// In all options one number stands for all dimensions, and an empty list for the default.

#include <cstdint>
#include <string_view>

#include "libcore/tensor/nn_ops.h"

namespace core {

struct ConvOptions {
  Shape stride = {};           ///< 1
  Shape padding = {};          ///< 0
  std::string_view rule = {};  ///< "same" or "valid" instead of padding
  Shape dilation = {};         ///< 1
  std::int64_t groups = 1;
};
/// x: (N, C, L) or (C, L); weight: (O, C / groups, k); bias: (O) or undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
/// x: (N, C, D, H, W) or (C, D, H, W); weight: (O, C / groups, kd, kh, kw).
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  Shape stride = {};          ///< 1
  Shape padding = {};         ///< 0
  Shape output_padding = {};  ///< 0
  std::int64_t groups = 1;
  Shape dilation = {};  ///< 1
};
/// The gradient of a convolution as an operation. weight: (C, O / groups, k...).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {});

struct PatchOptions {
  Shape dilation = {};  ///< 1
  Shape padding = {};   ///< 0
  Shape stride = {};    ///< 1
};
/// Patches of an image as columns: (N, C, H, W) or (C, H, W) to (N, C * kh * kw, positions).
Tensor unfold(const Tensor& x, const Shape& kernel, const PatchOptions& options = {});
/// The sum of such patches as an image of `output_size`.
Tensor fold(const Tensor& columns, const Shape& output_size, const Shape& kernel, const PatchOptions& options = {});

namespace detail {
/// `given` for `count` dimensions: itself, its one number repeated, or `otherwise` when empty.
Shape spread(const Shape& given, std::size_t count, std::int64_t otherwise);
}  // namespace detail

}  // namespace core

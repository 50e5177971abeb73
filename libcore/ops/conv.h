#pragma once
// Convolutions of one to three dimensions and their transposes, patches and back, as torch.nn.functional: results,
// errors and gradients are PyTorch's. Thread safety: pure functions. In all options one number stands for all
// dimensions, and an empty list for the default. Use: core::Tensor y = core::conv2d(x, w, b, {.padding = 2});

#include <concepts>
#include <cstdint>
#include <string_view>

#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Zeros around an image: so many on each side, or as many as keep its size ("same").
class Padding {
 public:
  Padding(Size2 amount = 0) : amount_(amount) {}  // NOLINT(google-explicit-constructor)
  template <std::integral Number>
  Padding(Number both) : amount_(static_cast<std::int64_t>(both)) {}  // NOLINT(google-explicit-constructor)
  Padding(std::int64_t h, std::int64_t w) : amount_(h, w) {}
  /// "same" or "valid". Error(value) "Invalid padding string 'full', should be one of {'same', 'valid'}".
  Padding(std::string_view rule);                                 // NOLINT(google-explicit-constructor)
  Padding(const char* rule) : Padding(std::string_view(rule)) {}  // NOLINT(google-explicit-constructor)

  bool is_same() const { return same_; }
  bool is_rule() const { return rule_; }
  Size2 amount() const { return amount_; }

 private:
  Size2 amount_;
  bool same_ = false;
  bool rule_ = false;
};

struct Conv2dOptions {
  Size2 stride = 1;
  Padding padding = {};
  Size2 dilation = 1;
  std::int64_t groups = 1;
};

/// x: (N, C, H, W) or (C, H, W); weight: (O, C / groups, kh, kw); bias: (O) or undefined.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {});

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

/// x: (time, batch, channels); weight: (k, channels, out); bias: (out); `pad` zeros at both ends of the time.
/// Errors(runtime): PyTorch's texts for other ranks and sizes.
Tensor conv_tbc(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t pad = 0);

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

}  // namespace core

namespace core::detail {

/// `given` for `count` dimensions: itself, its one number repeated, or `otherwise` when empty.
Shape spread(const Shape& given, std::size_t count, std::int64_t otherwise);

}  // namespace core::detail

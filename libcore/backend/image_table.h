#pragma once
// Kernels on images in blocks of sixteen channels: f32 arrays (batch, channels / 16 rounded up, plane, 16), the order
// in which convolutions, Winograd's among them, are fastest. What stands for channels that are not there is finite and
// never reaches a result. Only core::blocked (tensor/blocked_layout.h) calls them. A backend without them leaves
// NnTable::image null, and no image is ever blocked there.
// Thread safety: parameters are plain values, the table is constant after start-up.
// Use: table.image->pass(core::ImagePass{...});

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libcore/backend/nn_table.h"

namespace core {

/// Whether arrays of so many channels lie in blocks: where that wastes a quarter at most. Others lie in ordinary order.
constexpr bool lies_in_blocks(std::int64_t channels) {
  return channels > 0 && (channels + 15) / 16 * 16 * 3 <= channels * 4;
}

struct ImageShape {
  std::int64_t batch, channels, plane;

  std::int64_t pixels() const { return batch * plane; }
  /// Blocks of one image.
  std::int64_t blocks() const { return (channels + 15) / 16; }
  std::int64_t elements() const { return batch * plane * channels; }
  /// Floats of the array, those for missing channels included.
  std::int64_t count() const { return batch * plane * blocks() * 16; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Between (batch, channels, plane) and blocks.
struct ImageReorder {
  ImageShape shape;
  const float* in;
  float* out;
};

enum class ImageActivation : std::int64_t { none, relu, relu6, hardswish, silu };

/// out = activation(in * scale + shift + addend), per channel. scale may be null with shift, shift and addend alone;
/// `out` may be `in`. NaN stays NaN.
struct ImagePass {
  ImageShape shape;
  const float* in;
  const float* scale;  ///< blocks() * 16 floats, or as many for each image
  const float* shift;  ///< blocks() * 16 floats
  bool scale_each;     ///< a scale for each image
  const float* addend;
  ImageActivation activation;
  float* out;
};

/// out = output <= 0 ? 0 : grad.
struct ImageReluGrad {
  std::int64_t count;
  const float* grad;
  const float* output;
  float* out;
};

/// mean and biased variance of each channel.
struct ImageStats {
  ImageShape shape;
  const float* in;
  float* mean;
  float* var;
};

/// As BatchNormGradParams; each gradient may be null.
struct ImageNormGrad {
  ImageShape shape;
  bool batch_stats;
  const float* output_grad;
  const float* input;
  const float* mean;
  const float* inverse_std;
  const float* weight;
  float* input_grad;
  float* weight_grad;
  float* bias_grad;
};

/// out = the largest of each window, taps = which one it was (kernel_h * kernel_w <= 255), row by row; taps may be
/// null. `sizes.planes` counts channels, missing ones included.
struct ImageMaxPool {
  Pool2dSizes sizes;
  const float* in;
  float* out;
  std::uint8_t* taps;
};

/// input_grad = output_grad put back to where the values came from, as far as `relu` is above 0 there.
struct ImageMaxPoolGrad {
  Pool2dSizes sizes;
  const float* output_grad;
  const std::uint8_t* taps;
  float* input_grad;
  const float* relu;  ///< what was pooled, the output of relu, whose gradient is taken along; or null
};

/// As AvgPool2dParams in f32; `sizes.planes` counts channels, missing ones included.
using ImageAvgPool = AvgPool2dParams;

/// out (batch, channels) = the mean over each plane.
struct ImageMean {
  ImageShape shape;
  const float* in;
  float* out;
};

enum class ConvPass : std::int64_t { forward, input_grad, weight_grad };

/// What a convolution does to its sums besides: activation(sums * scale + shift + addend). NaN may become 0 in relu and
/// relu6.
struct ImageEpilogue {
  const float* scale = nullptr;  ///< blocks() * 16 floats of the output; null together with shift
  const float* shift = nullptr;
  const float* addend = nullptr;  ///< lies as the output
  ImageActivation activation = ImageActivation::none;
};

/// Arrays: image and output in blocks, but an image whose channels do not lie in blocks in ordinary order, as are
/// weight and bias.
struct ImageConv {
  Conv2dSizes sizes;
  const float* image;
  const float* weight;  ///< null when `packed` is given
  const float* packed;
  const float* bias;
  float* output;
  ImageEpilogue epilogue = {};  ///< REQUIRES: packed and conv_can_fuse(), or nothing
};
/// An order of a weight: its size, 0 where that is the ordinary order, and what tells it from others (valid until the
/// thread's next convolution).
struct PackedForm {
  std::size_t bytes;
  std::string_view form;
};

/// packed = the weight in the order that `conv` works in.
struct ImagePack {
  Conv2dSizes sizes;
  bool has_bias;
  const float* weight;
  float* packed;
};
struct ImageConvInputGrad {
  Conv2dSizes sizes;
  const float* output_grad;
  const float* weight;
  float* image_grad;
};
struct ImageConvWeightGrad {
  Conv2dSizes sizes;
  const float* output_grad;
  const float* image;
  float* weight_grad;
  float* bias_grad;
};

struct ImageTable {
  void (*to_blocks)(const ImageReorder&);
  void (*from_blocks)(const ImageReorder&);
  void (*pass)(const ImagePass&);
  void (*relu_grad)(const ImageReluGrad&);
  void (*stats)(const ImageStats&);
  void (*norm_grad)(const ImageNormGrad&);
  void (*max_pool)(const ImageMaxPool&);
  void (*max_pool_grad)(const ImageMaxPoolGrad&);
  void (*avg_pool)(const ImageAvgPool&);
  void (*mean)(const ImageMean&);
  /// Whether there is a fast kernel for this convolution on blocks.
  bool (*conv_fits)(const Conv2dSizes&, ConvPass);
  /// Whether there is one where the weight is packed, be it that groups do not fill blocks.
  bool (*packed_fits)(const Conv2dSizes&);
  /// The order of the weight that `conv` works in where it is packed.
  PackedForm (*packed_form)(const Conv2dSizes&, bool has_bias);
  void (*pack)(const ImagePack&);
  void (*conv)(const ImageConv&);
  /// Whether `conv` with a packed weight can do this besides. What the pointers point to does not matter.
  bool (*conv_can_fuse)(const Conv2dSizes&, bool has_bias, const ImageEpilogue&);
  void (*conv_input_grad)(const ImageConvInputGrad&);
  void (*conv_weight_grad)(const ImageConvWeightGrad&);
};

}  // namespace core

#pragma once
// The neural-network family of kernels: convolution, pooling, normalisation, softmax and losses. What each sees are raw
// pointers to dense row-major arrays and sizes (images also with channels last, see takes_channels_last); the caller
// has checked shapes, dtypes and devices and allocated outputs. Statistics of f16 and bf16 (means, variances, inverse
// deviations, sums of exponentials) are f32. A null slot is a clear "not supported on DEVICE for DTYPE". Thread safety:
// parameters are plain values, the table is constant after start-up. Use:
// backend.ops().nn->conv2d[dtype](core::Conv2dParams{...});

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "libcore/backend/attention_params.h"
#include "libcore/base/dtype.h"

namespace core {

/// Where the channels of images lie: planes one after the other, or side by side for each pixel (torch.channels_last).
enum class ImageOrder : std::int64_t { channels_first, channels_last };

/// Sizes of a 2-D convolution. Arrays: input (batch, in_channels, in_h, in_w), weight (out_channels, in_channels /
/// groups, kernel_h, kernel_w), bias (out_channels), output (batch, out_channels, out_h, out_w). The channels of all
/// three lie as `order` says, last only where the table takes that.
struct Conv2dSizes {
  std::int64_t batch, in_channels, in_h, in_w;
  std::int64_t out_channels, out_h, out_w;
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h, stride_w;
  std::int64_t pad_top, pad_left, pad_bottom, pad_right;
  std::int64_t dilation_h, dilation_w;
  std::int64_t groups;
  ImageOrder order = ImageOrder::channels_first;
};

/// keep(key, bytes, make): what make(to) wrote to so many bytes for this key (any bytes) since the weight's bytes last
/// changed; valid until the kernel that asks returns.
using KeepWeight = std::function<const void*(std::string_view, std::size_t, const std::function<void(void*)>&)>;

/// output = input * weight + bias; bias may be null. keep: where a kernel may leave the weight in another order for its
/// next call, or null.
struct Conv2dParams {
  Conv2dSizes sizes;
  const void* input;
  const void* weight;
  const void* bias;
  void* output;
  const KeepWeight* keep = nullptr;
};

/// The gradient of the input.
struct Conv2dInputGradParams {
  Conv2dSizes sizes;
  const void* output_grad;
  const void* weight;
  void* input_grad;
};

/// The gradients of weight and bias; bias_grad may be null.
struct Conv2dWeightGradParams {
  Conv2dSizes sizes;
  const void* output_grad;
  const void* input;
  void* weight_grad;
  void* bias_grad;
};

/// Sizes of a 2-D pooling over `planes` images of `inner` channels each, which lie side by side; other than 1 only
/// where the table takes channels last. Windows may reach over the borders.
struct Pool2dSizes {
  std::int64_t planes, in_h, in_w, out_h, out_w;
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h, stride_w;
  std::int64_t pad_h, pad_w;
  std::int64_t dilation_h, dilation_w;
  std::int64_t inner = 1;
};

/// output = the largest of each window (NaN counts as largest), indices = its position h * in_w + w in the plane.
struct MaxPool2dParams {
  Pool2dSizes sizes;
  const void* input;
  void* output;
  std::int64_t* indices;
};

/// Moves values between a plane of `size` elements and the `picked` positions `indices` in it. scatter: plane (zeroed
/// here) += values; gather: values = plane. Of `windows`, those that picked, counts `inner`, and where that is not 1
/// scatter needs the rest.
struct PickParams {
  std::int64_t planes, size, picked;
  const std::int64_t* indices;
  const void* in;
  void* out;
  Pool2dSizes windows{};
};

/// Means over windows. The divisor is `divisor` when that is not 0, else the number of elements in the window (with the
/// padding when count_pad).
struct AvgPool2dParams {
  Pool2dSizes sizes;
  bool count_pad;
  std::int64_t divisor;
  const void* in;  // forward: input; backward: gradient of the output
  void* out;       // forward: output; backward: gradient of the input
};

/// Means over windows [floor(i * in / out), ceil((i + 1) * in / out)). `inner` as in Pool2dSizes.
struct AdaptivePool2dParams {
  std::int64_t planes, in_h, in_w, out_h, out_w;
  const void* in;
  void* out;
  std::int64_t inner = 1;
};

// Normalisations. Weight, bias and their gradients are of the data's dtype, or f32 beside f16 and bf16
// (`parameters_in_f32`).

/// Arrays (batch, channels, plane); of channels that lie last (pixels, channels, 1). weight and bias may be null.
struct BatchNormSizes {
  std::int64_t batch, channels, plane;
};

/// mean and (biased) variance of each channel.
struct BatchStatsParams {
  BatchNormSizes sizes;
  const void* input;
  void* mean;
  void* var;
};

/// output = (input - mean) * inverse_std * weight + bias.
struct BatchNormParams {
  BatchNormSizes sizes;
  const void* input;
  const void* mean;
  const void* inverse_std;
  const void* weight;
  const void* bias;
  void* output;
  bool parameters_in_f32 = false;
};

/// Each gradient may be null. `batch_stats`: mean and inverse_std were those of the batch, and carry gradient.
struct BatchNormGradParams {
  BatchNormSizes sizes;
  bool batch_stats;
  const void* output_grad;
  const void* input;
  const void* mean;
  const void* inverse_std;
  const void* weight;
  void* input_grad;
  void* weight_grad;
  void* bias_grad;
  bool parameters_in_f32 = false;
};

/// Arrays (rows, length). weight and bias (length) may be null; mean and inverse_std have `rows` elements.
struct LayerNormParams {
  std::int64_t rows, length;
  double eps;
  const void* input;
  const void* weight;
  const void* bias;
  void* output;
  void* mean;
  void* inverse_std;
  bool parameters_in_f32 = false;
};

/// Each gradient may be null.
struct LayerNormGradParams {
  std::int64_t rows, length;
  const void* output_grad;
  const void* input;
  const void* mean;
  const void* inverse_std;
  const void* weight;
  void* input_grad;
  void* weight_grad;
  void* bias_grad;
  bool parameters_in_f32 = false;
};

/// input_grad = output_grad * the derivative of gelu, in its form with tanh, at the input.
struct GeluGradParams {
  std::int64_t count;
  const void* output_grad;
  const void* input;
  void* input_grad;
};

/// out = in * mask * scale: the gradient of dropout.
struct MaskedScaleParams {
  std::int64_t count;
  double scale;
  const void* in;
  const bool* mask;
  void* out;
};

/// Along the middle of (outer, length, inner).
struct SoftmaxParams {
  std::int64_t outer, length, inner;
  const void* input;
  void* output;
};

struct SoftmaxGradParams {
  std::int64_t outer, length, inner;
  const void* output_grad;
  const void* output;
  void* input_grad;
};

/// Negative log likelihood: log_prob (batch, classes, inner), target (batch, inner); weight (classes) may be null.
/// For each position: losses = -weight[target] * log_prob (0 where the target is ignore_index); total = their sum,
/// total_weight = the sum of the weights. `losses` or `total` may be null. A target outside [0, classes) stops it and
/// is stored in bad_target.
struct NllParams {
  std::int64_t batch, classes, inner, ignore_index;
  const void* log_prob;
  const std::int64_t* target;
  const void* weight;
  void* losses;
  void* total;
  void* total_weight;
  std::int64_t bad_target;
  bool failed;
};

/// log_prob_grad (zeroed here) at each target = -weight[target] * scale * loss_grad; loss_grad has one element for
/// every position, or one in all (`shared_grad`). scale: one element, divides when not null (the total weight of a
/// mean).
struct NllGradParams {
  std::int64_t batch, classes, inner, ignore_index;
  bool shared_grad;
  const void* loss_grad;
  const std::int64_t* target;
  const void* weight;
  const void* divisor;
  void* log_prob_grad;
};

template <class Params>
using KernelRow = std::array<void (*)(const Params&), kDTypeCount>;

struct ImageTable;  // image_table.h

/// By dtype of the data.
struct NnTable {
  const ImageTable* image = nullptr;
  KernelRow<Conv2dParams> conv2d{};
  KernelRow<Conv2dInputGradParams> conv2d_input_grad{};
  KernelRow<Conv2dWeightGradParams> conv2d_weight_grad{};
  KernelRow<MaxPool2dParams> max_pool2d{};
  /// The same for 2 x 2 windows side by side without borders, or null.
  KernelRow<MaxPool2dParams> max_pool2d_2x2{};
  KernelRow<PickParams> scatter_picked{};
  KernelRow<PickParams> gather_picked{};
  KernelRow<AvgPool2dParams> avg_pool2d{};
  KernelRow<AvgPool2dParams> avg_pool2d_grad{};
  KernelRow<AdaptivePool2dParams> adaptive_avg_pool2d{};
  KernelRow<AdaptivePool2dParams> adaptive_avg_pool2d_grad{};
  KernelRow<BatchStatsParams> batch_stats{};
  KernelRow<BatchNormParams> batch_norm{};
  KernelRow<BatchNormGradParams> batch_norm_grad{};
  KernelRow<LayerNormParams> layer_norm{};
  KernelRow<LayerNormGradParams> layer_norm_grad{};
  /// The same for rows of at least kLongRow elements, or null: sums in another order than PyTorch's, which only short
  /// rows can show.
  KernelRow<LayerNormParams> layer_norm_long{};
  KernelRow<LayerNormGradParams> layer_norm_long_grad{};
  static constexpr std::int64_t kLongRow = 64;
  KernelRow<GeluGradParams> gelu_tanh_grad{};
  /// Null where dropout is not one kernel.
  KernelRow<MaskedScaleParams> masked_scale{};
  KernelRow<AttentionParams> attention{};
  KernelRow<AttentionGradParams> attention_grad{};
  /// By DType::boolean; null where attention() has no dropout.
  KernelRow<AttentionKeptParams> attention_kept{};
  KernelRow<SoftmaxParams> softmax{};
  KernelRow<SoftmaxParams> log_softmax{};
  KernelRow<SoftmaxGradParams> softmax_grad{};
  KernelRow<SoftmaxGradParams> log_softmax_grad{};
  std::array<void (*)(NllParams&), kDTypeCount> nll{};
  KernelRow<NllGradParams> nll_grad{};
  /// Whether attention() goes by tiles, whatever the number of keys, for heads of up to kWidestTiles elements a row;
  /// such kernels take masks and dropout, others do not.
  bool attention_has_tiles = false;
  /// Whether convolution and pooling take images whose channels lie last, and batch_* are fast on them.
  bool takes_channels_last = false;
  static constexpr std::int64_t kWidestTiles = 512;
};

}  // namespace core

#pragma once
// The neural-network operations without history: checks with PyTorch's texts, then the backend's slot. What nn_ops.h
// and the nodes of autograd are made of. Thread safety: pure functions. Use: core::Tensor y = core::raw::conv2d(x, w,
// b, core::raw::conv2d_sizes(x, w, b, {}));

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "libcore/backend/nn_table.h"
#include "libcore/tensor/nn_ops.h"

namespace core::raw {

/// Checks a convolution of a batch (x has four dimensions) and gives all its sizes.
Conv2dSizes conv2d_sizes(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options);
/// What is known about a convolution's weight: `again`, that it will be used in this state again, so that what its
/// kernel makes of it is worth keeping.
enum class WeightUse { once, again };
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& sizes,
              WeightUse use = WeightUse::once);
Tensor conv2d_input_grad(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& sizes);
/// PyTorch's rule: channels last where x or the weight lies so, but not of f64, and where there are kernels for it.
ImageOrder conv2d_order(const Tensor& x, const Tensor& weight);
struct WeightGrads {
  Tensor weight;
  Tensor bias;
};
/// `bias` is undefined unless asked for.
WeightGrads conv2d_weight_grad(const Tensor& output_grad, const Tensor& x, const Conv2dSizes& sizes, bool with_bias);

/// A convolution of one to three dimensions: that of planes, and what the third dimension adds. `depth` is 1 in all its
/// sizes below three dimensions; one dimension is planes of height 1.
struct ConvPlan {
  std::size_t rank = 2;  ///< 1, 2 or 3
  Conv2dSizes plane{};
  std::int64_t in_d = 1, out_d = 1, kernel_d = 1, stride_d = 1, pad_front = 0, dilation_d = 1;

  WeightUse weight_use = WeightUse::once;

  Shape input_sizes() const;
  Shape output_sizes() const;
  Shape weight_sizes() const;
};
/// The maps of conv2d for any plan.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan);
Tensor convolution_input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& plan);
WeightGrads convolution_weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& plan, bool with_bias);

ValuesIndices max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options);
/// The same of a held image (held_image.h): which tap of each window was largest instead of indices.
struct HeldMaxPool {
  Tensor values;  ///< undefined where x is not held or the window too large
  std::shared_ptr<const std::vector<std::uint8_t>> taps = nullptr;  ///< in blocks; empty unless asked for
  Pool2dSizes sizes{};
  Shape output_sizes = {};
};
enum class KeepTaps { no, yes };
HeldMaxPool max_pool2d_of_image(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options, KeepTaps keep);
Tensor max_pool2d_of_image_grad(const Tensor& output_grad, const HeldMaxPool& forward);
/// The indices that max_pool2d would have given.
Tensor indices_of(const HeldMaxPool& forward, Backend& backend);
/// Values of the last two dimensions of `like` picked by (or put back to) `indices`, as max_pool2d made them.
/// Channels of the result lie as those of the indices.
Tensor gather_picked(const Tensor& planes, const Tensor& indices);
/// What indices are positions of: planes, and the windows that they were picked in.
struct PickedPlanes {
  Shape sizes;
  Pool2dSizes windows{};
};
Tensor scatter_picked(const Tensor& values, const Tensor& indices, const PickedPlanes& planes);
/// The windows of max_pool2d.
Pool2dSizes max_pool2d_windows(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options);

/// Everything about an average pooling but its arrays.
AvgPool2dParams avg_pool2d_plan(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, AvgPool2dParams plan);
Tensor avg_pool2d_grad(const Tensor& output_grad, AvgPool2dParams plan, const Shape& input_sizes);
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output);
/// `order`: of the input's channels.
Tensor adaptive_avg_pool2d_grad(const Tensor& output_grad, const Shape& input_sizes, ImageOrder order);

/// What batch_norm found: mean and 1 / sqrt(var + eps) of each channel.
struct NormStats {
  Tensor mean;
  Tensor inverse_std;
};
/// Checks, takes the statistics of x or the running ones, and updates the latter when training.
NormStats batch_norm_stats(const Tensor& x, const BatchNormArguments& arguments);
Tensor batch_norm(const Tensor& x, const NormStats& stats, const BatchNormArguments& arguments);
/// Gradients of input, weight and bias; undefined where not wanted.
struct NormGrads {
  Tensor input;
  Tensor weight;
  Tensor bias;
};
struct NormWanted {
  bool input, weight, bias;
};
NormGrads batch_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          bool batch_stats, NormWanted wanted);

struct LayerNormResult {
  Tensor output;
  NormStats stats;
};
LayerNormResult layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& arguments);
NormGrads layer_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          NormWanted wanted);

/// Everything about an attention but its arrays.
struct AttentionPlan {
  double scale = 1;
  bool causal = false;
  Tensor mask = {};  ///< bool or of the data's dtype, or undefined; broadcasts to (N, heads, queries, keys)
  double dropout = 0;
};
/// Whether there is a kernel for it: (N, heads, length, width), one width; on the CPU f32, and short enough to stay in
/// the caches.
bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v);
/// Whether that kernel takes the plan's mask and dropout too; those of GPUs do, without a matrix of scores.
bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan);
struct AttentionResult {
  Tensor output;  ///< laid out as q, as PyTorch's
  Tensor log_sums;
  Tensor row_maxima = {};  ///< with a mask
  Tensor drawn = {};       ///< with dropout: seed and offset, from which the gradient finds what was kept
};
/// Dropout draws from the default generator of q's device.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan);
struct AttentionGrads {
  Tensor q, k, v;
};
AttentionGrads attention_grad(const Tensor& output_grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionResult& forward, const AttentionPlan& plan);
/// What dropout kept, as a matrix of bool (N, heads, queries, keys).
Tensor attention_kept(const Tensor& q, const Tensor& k, const AttentionPlan& plan, const Tensor& drawn);

/// output_grad times the derivative of gelu (with tanh) at x; undefined where there is no kernel.
Tensor try_gelu_tanh_grad(const Tensor& output_grad, const Tensor& x);

Tensor softmax(const Tensor& x, std::int64_t dim);
Tensor log_softmax(const Tensor& x, std::int64_t dim);
Tensor softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim);
Tensor log_softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim);

struct NllResult {
  Tensor loss;          ///< reduced
  Tensor total_weight;  ///< 0-dim
};
NllResult nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options);
Tensor nll_loss_grad(const Tensor& loss_grad, const Tensor& target, const NllResult& forward, const Shape& sizes,
                     const NllLossOptions& options);

}  // namespace core::raw

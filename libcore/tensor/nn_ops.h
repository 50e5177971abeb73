#pragma once
// Neural-network operations, as torch.nn.functional: results, errors and gradients are PyTorch's. Element-wise
// activations and linear are in ops.h. With history; the same without it is in raw_nn_ops.h, the nodes in
// autograd/nn_functions.cpp. Thread safety: pure functions, but batch_norm updates its running statistics and dropout
// draws random numbers. Use: core::Tensor y = core::max_pool2d(core::relu(core::conv2d(x, w, b, {.padding = 2})), 2);

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libcore/tensor/ops.h"
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

struct MaxPool2dOptions {
  Size2 stride = {};  ///< the kernel's size unless given
  Size2 padding = 0;
  Size2 dilation = 1;
  bool ceil_mode = false;
};
/// x: (N, C, H, W) or (C, H, W).
Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options = {});
/// Indices are positions h * W + w in each plane.
ValuesIndices max_pool2d_with_indices(const Tensor& x, Size2 kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2 stride = {};  ///< the kernel's size unless given
  Size2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
};
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPool2dOptions& options = {});

/// Size of an adaptive pooling's output; a dimension that is not given stays as the input's.
struct AdaptiveSize {
  AdaptiveSize(std::int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  AdaptiveSize(std::optional<std::int64_t> h_size, std::optional<std::int64_t> w_size)
      : h(h_size), w(w_size), pair(true) {}
  std::optional<std::int64_t> h;
  std::optional<std::int64_t> w;
  bool pair = false;
};
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output);

struct BatchNormArguments {
  Tensor running_mean = {};  ///< updated in place when training; may be undefined
  Tensor running_var = {};
  Tensor weight = {};
  Tensor bias = {};
  bool training = false;  ///< normalise by the statistics of x
  double momentum = 0.1;
  double eps = 1e-5;
};
/// x: (N, C, ...).
Tensor batch_norm(const Tensor& x, const BatchNormArguments& arguments);

struct LayerNormArguments {
  Tensor weight = {};
  Tensor bias = {};
  double eps = 1e-5;
};
/// Over the last dimensions of x, which are `normalized_shape`.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& arguments = {});

Tensor softmax(const Tensor& x, std::int64_t dim);
Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// Along dimension 0 of 0, 1 and 3 dimensions, else 1; warns that the dimension should be said.
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);

/// Each element is 0 with probability p, else divided by 1 - p. Draws from the default generator of x's device.
/// Error(value) "dropout probability has to be between 0 and 1, but got 1.5".
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
/// The same, into x.
Tensor dropout_(const Tensor& x, double p = 0.5, bool training = true);
void check_dropout_probability(double p);

/// Rows of `weight` (count, width) at `indices` (any shape); the gradient of row `padding_idx` is 0.
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

enum class Reduction { none, mean, sum };
/// Error(value) "foo is not a valid value for reduction".
Reduction parse_reduction(std::string_view text);
std::string_view name(Reduction reduction);

/// Warns as PyTorch when the sizes differ; they broadcast.
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

struct NllLossOptions {
  Tensor weight = {};  ///< of each class
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
/// log_prob: (N, C), (C) or (N, C, d1, ...); target: class indices (N), () or (N, d1, ...).
Tensor nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options = {});

struct CrossEntropyOptions {
  Tensor weight = {};
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};
/// logits as log_prob above; target: class indices as above, or probabilities in the shape of the logits.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

}  // namespace core

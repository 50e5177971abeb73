// Products, convolutions, poolings and norms, on all samples at once.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"

namespace core::func::detail {
namespace {

/// A vector is a row on the left and a column on the right.
Tensor product(const BatchedCall& c, std::size_t left, std::size_t right) {
  const bool row = c.rank(left) == 1, column = c.rank(right) == 1;
  const std::int64_t rank = std::max<std::int64_t>(2, std::max(c.rank(left), c.rank(right)));
  const auto matrix = [&](std::size_t i, bool vector, std::int64_t at) {
    if (!vector) return c.aligned(i, rank);
    const Tensor wide = (c.is_batch(i) ? c.batches[i] : c.given(i)).unsqueeze(at);  // (samples, 1, n): two dimensions
    if (!c.is_batch(i) || rank == 2) return wide;
    Shape sizes{c.size};
    for (std::int64_t d = 2; d < rank; ++d) sizes.push_back(1);
    sizes.push_back(wide.size(-2));
    sizes.push_back(wide.size(-1));
    return wide.reshape(sizes);
  };
  Tensor y = matmul(matrix(left, row, -2), matrix(right, column, -1));
  if (column) y = y.squeeze(-1);
  if (row) y = y.squeeze(column ? -1 : -2);
  return y;
}

Results matmul_rule(const BatchedCall& c) {
  return {product(c, 0, 1)};
}

Results addmm_rule(const BatchedCall& c) {
  const Tensor y = product(c, 1, 2);
  const double alpha = c.number("alpha"), beta = c.number("beta");
  const Tensor x = c.aligned(0, 2);
  return {(beta == 1 ? x : x * beta) + (alpha == 1 ? y : y * alpha)};
}

/// With weights of its own for each sample: one product of matrices a sample.
Results linear_rule(const BatchedCall& c) {
  if (c.rank(1) != 2) no_batch_rule();
  if (!c.is_batch(1) && !c.is_batch(2)) return {linear(c.batches[0], c.given(1), c.shared(2))};
  const Tensor x = c.is_batch(0) ? c.batches[0] : c.given(0).unsqueeze(0);
  const Tensor rows = x.reshape({x.size(0), -1, x.size(-1)});
  const Tensor weight = c.is_batch(1) ? c.batches[1] : c.given(1).unsqueeze(0);
  Tensor y = matmul(rows, weight.transpose(1, 2));
  if (c.has(2)) y = y + (c.is_batch(2) ? c.batches[2].unsqueeze(1) : c.given(2));
  return {y.reshape(c.output_sizes())};
}

Results einsum_rule(const BatchedCall& c) {
  const std::string text(c.text("equation"));
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find('.') != std::string::npos) no_batch_rule();
  char letter = 'A';
  while (text.find(letter) != std::string::npos) ++letter;
  if (letter > 'Z') no_batch_rule();
  std::string equation;
  std::vector<Tensor> operands;
  std::size_t at = 0;
  for (std::size_t i = 0; i < c.count(); ++i) {
    const std::size_t end = std::min(text.find(',', at), arrow);
    if (c.is_batch(i)) equation += letter;
    equation += text.substr(at, end - at) + (end == arrow ? "->" : ",");
    operands.push_back(c.is_batch(i) ? c.batches[i] : c.given(i));
    at = end + 1;
  }
  return {einsum(equation + letter + text.substr(arrow + 2), operands)};
}

/// Samples and images in one dimension, and apart again.
template <class Layer>
Results folded(const BatchedCall& c, std::int64_t with_batch, Layer layer) {
  if (c.rank() == with_batch - 1) return {layer(c.batches[0])};
  if (c.rank() != with_batch) no_batch_rule();
  return {layer(c.batches[0].flatten(0, 1)).reshape(c.output_sizes())};
}

Tensor convolved(const BatchedCall& c, const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t groups) {
  const ConvOptions o{.stride = c.shape("stride"),
                      .padding = c.flag("same") ? Shape() : c.shape("padding"),
                      .rule = c.flag("same") ? "same" : "",
                      .dilation = c.shape("dilation"),
                      .groups = groups};
  if (o.stride.size() == 1) return conv1d(x, weight, bias, o);
  if (o.stride.size() == 3) return conv3d(x, weight, bias, o);
  const Padding padding = c.flag("same") ? Padding("same") : Padding(Size2(o.padding[0], o.padding[1]));
  return conv2d(x, weight, bias,
                {Size2(o.stride[0], o.stride[1]), padding, Size2(o.dilation[0], o.dilation[1]), groups});
}

/// With weights of its own for each sample these are groups of one convolution.
Results conv_rule(const BatchedCall& c) {
  const auto with_batch = static_cast<std::int64_t>(c.shape("stride").size()) + 2;
  const std::int64_t groups = c.integer("groups");
  if (!c.is_batch(1) && !c.is_batch(2)) {
    return folded(c, with_batch, [&](const Tensor& x) { return convolved(c, x, c.given(1), c.shared(2), groups); });
  }
  const bool single = c.rank() == with_batch - 1;
  const Tensor x = single ? c.each(0).unsqueeze(1) : c.each(0);
  const Tensor side_by_side = x.transpose(0, 1).flatten(1, 2);
  const Tensor y =
      convolved(c, side_by_side, c.each(1).flatten(0, 1), c.has(2) ? c.each(2).flatten() : Tensor(), groups * c.size);
  Shape sizes{y.size(0), c.size, y.size(1) / c.size};
  for (std::int64_t d = 2; d < y.dim(); ++d) sizes.push_back(y.size(d));
  return {y.reshape(sizes).transpose(0, 1).reshape(c.output_sizes())};
}

Results conv_transpose_rule(const BatchedCall& c) {
  const ConvTransposeOptions o{.stride = c.shape("stride"),
                               .padding = c.shape("padding"),
                               .output_padding = c.shape("output_padding"),
                               .groups = c.integer("groups"),
                               .dilation = c.shape("dilation")};
  const Tensor weight = c.shared(1), bias = c.shared(2);
  return folded(c, static_cast<std::int64_t>(o.stride.size()) + 2, [&](const Tensor& x) {
    if (o.stride.size() == 1) return conv_transpose1d(x, weight, bias, o);
    return o.stride.size() == 2 ? conv_transpose2d(x, weight, bias, o) : conv_transpose3d(x, weight, bias, o);
  });
}

Size2 two_sizes(const BatchedCall& c, const char* key) {
  const Shape sizes = c.shape(key);
  return Size2(sizes[0], sizes[1]);
}
MaxPool2dOptions max_of_planes(const BatchedCall& c) {
  return {two_sizes(c, "stride"), two_sizes(c, "padding"), two_sizes(c, "dilation"), c.flag("ceil_mode")};
}
MaxPoolOptions max_of_volumes(const BatchedCall& c) {
  return {c.shape("stride"), c.shape("padding"), c.shape("dilation"), c.flag("ceil_mode")};
}
Results max_pool2d_rule(const BatchedCall& c) {
  return folded(c, 4, [&](const Tensor& x) { return max_pool2d(x, two_sizes(c, "kernel"), max_of_planes(c)); });
}
Results max_pool3d_rule(const BatchedCall& c) {
  return folded(c, 5, [&](const Tensor& x) { return max_pool3d(x, c.shape("kernel"), max_of_volumes(c)); });
}
/// Of planes and of volumes; places are those in one of them.
Results max_pool_with_indices_rule(const BatchedCall& c) {
  const bool volumes = c.shape("kernel").size() == 3;
  const std::int64_t with_batch = volumes ? 5 : 4;
  if (c.rank() != with_batch && c.rank() != with_batch - 1) no_batch_rule();
  const Tensor x = c.rank() == with_batch ? c.batches[0].flatten(0, 1) : c.batches[0];
  const ValuesIndices both = volumes ? max_pool3d_with_indices(x, c.shape("kernel"), max_of_volumes(c))
                                     : max_pool2d_with_indices(x, two_sizes(c, "kernel"), max_of_planes(c));
  return {both.values.reshape(c.output_sizes(0)), both.indices.reshape(c.output_sizes(1))};
}
std::optional<std::int64_t> divisor_of(const BatchedCall& c) {
  return c.integer("divisor") == 0 ? std::nullopt : std::optional(c.integer("divisor"));
}
Results avg_pool2d_rule(const BatchedCall& c) {
  const AvgPool2dOptions o{two_sizes(c, "stride"), two_sizes(c, "padding"), c.flag("ceil_mode"),
                           c.flag("count_include_pad"), divisor_of(c)};
  return folded(c, 4, [&](const Tensor& x) { return avg_pool2d(x, two_sizes(c, "kernel"), o); });
}
Results avg_pool3d_rule(const BatchedCall& c) {
  const AvgPoolOptions o{c.shape("stride"), c.shape("padding"), c.flag("ceil_mode"), c.flag("count_include_pad"),
                         divisor_of(c)};
  return folded(c, 5, [&](const Tensor& x) { return avg_pool3d(x, c.shape("kernel"), o); });
}
Results adaptive_avg_pool2d_rule(const BatchedCall& c) {
  const AdaptiveSize size(c.output().size(-2), c.output().size(-1));
  return folded(c, 4, [&](const Tensor& x) { return adaptive_avg_pool2d(x, size); });
}

/// Scale and shift by sample stay outside of the norm.
Tensor scaled(const BatchedCall& c, const Tensor& y, std::int64_t rank) {
  Tensor result = y;
  if (c.has(1)) result = result * c.aligned(1, rank);
  if (c.has(2)) result = result + c.aligned(2, rank);
  return result;
}
Shape last_sizes(const BatchedCall& c) {
  Shape sizes;
  for (std::int64_t d = c.rank() - c.integer("axes"); d < c.rank(); ++d) sizes.push_back(c.given(0).size(d));
  return sizes;
}
Results layer_norm_rule(const BatchedCall& c) {
  const Shape sizes = last_sizes(c);
  const double eps = c.number("eps");
  if (!c.is_batch(1) && !c.is_batch(2)) {
    return {layer_norm(c.batches[0], sizes, {.weight = c.shared(1), .bias = c.shared(2), .eps = eps})};
  }
  return {scaled(c, layer_norm(c.each(0), sizes, {.eps = eps}), c.rank())};
}
Results rms_norm_rule(const BatchedCall& c) {
  const Shape sizes = last_sizes(c);
  const Tensor y = rms_norm(c.each(0), sizes, {.eps = c.number("eps")});
  return {c.has(1) ? y * c.aligned(1, c.rank()) : y};
}
/// The channels of all samples side by side, as those of one image, with what each channel has of its own.
struct SideBySide {
  Tensor x;
  std::vector<Tensor> of_channels;  ///< inputs 1, 2, ...

  explicit SideBySide(const BatchedCall& c) {
    if (c.rank() < 2) no_batch_rule();
    x = c.each(0).transpose(0, 1).flatten(1, 2);
    for (std::size_t i = 1; i < c.count(); ++i) of_channels.push_back(c.has(i) ? c.each(i).flatten() : Tensor());
  }
  static Results apart(const BatchedCall& c, const Tensor& y) {
    Shape sizes{c.given(0).size(0), c.size};
    for (std::int64_t d = 1; d < c.rank(); ++d) sizes.push_back(c.given(0).size(d));
    return {y.reshape(sizes).transpose(0, 1).contiguous()};
  }
};
Results group_norm_rule(const BatchedCall& c) {
  const std::int64_t groups = c.integer("groups");
  const double eps = c.number("eps");
  if (!c.is_batch(1) && !c.is_batch(2)) {
    return folded(c, c.rank(), [&](const Tensor& x) {
      return group_norm(x, groups, {.weight = c.shared(1), .bias = c.shared(2), .eps = eps});
    });
  }
  const SideBySide all(c);
  return SideBySide::apart(
      c, group_norm(all.x, groups * c.size, {.weight = all.of_channels[0], .bias = all.of_channels[1], .eps = eps}));
}

/// Inputs of batch_norm and instance_norm: x, weight, bias, running mean, running variance.
BatchNormArguments norm_arguments(const BatchedCall& c, const std::vector<Tensor>& of_channels) {
  return {.running_mean = of_channels[2],
          .running_var = of_channels[3],
          .weight = of_channels[0],
          .bias = of_channels[1],
          .training = c.flag("training"),
          .eps = c.number("eps")};
}
bool all_shared(const BatchedCall& c) {
  return !c.is_batch(1) && !c.is_batch(2) && !c.is_batch(3) && !c.is_batch(4);
}
std::vector<Tensor> shared_by_channels(const BatchedCall& c) {
  return {c.shared(1), c.shared(2), c.shared(3), c.shared(4)};
}
/// Statistics of a sample are its own, so that in training its channels are: running statistics, which a sample would
/// leave to the next, do not come here (writes_beside).
Results batch_norm_rule(const BatchedCall& c) {
  if (!c.flag("training") && all_shared(c)) {
    if (c.rank() < 2) no_batch_rule();
    return folded(c, c.rank(),
                  [&](const Tensor& x) { return batch_norm(x, norm_arguments(c, shared_by_channels(c))); });
  }
  const SideBySide all(c);
  return SideBySide::apart(c, batch_norm(all.x, norm_arguments(c, all.of_channels)));
}
/// Statistics of an image are its own.
Results instance_norm_rule(const BatchedCall& c) {
  if (c.rank() < 3) no_batch_rule();
  if (all_shared(c)) {
    return folded(c, c.rank(),
                  [&](const Tensor& x) { return instance_norm(x, norm_arguments(c, shared_by_channels(c))); });
  }
  const SideBySide all(c);
  return SideBySide::apart(c, instance_norm(all.x, norm_arguments(c, all.of_channels)));
}

Results attention_rule(const BatchedCall& c) {
  if (c.number("dropout") != 0) no_batch_rule();
  AttentionOptions o{.is_causal = c.flag("is_causal")};
  if (!std::isnan(c.number("scale"))) o.scale = c.number("scale");
  if (c.rank(0) != c.rank(1) || c.rank(0) != c.rank(2)) no_batch_rule();
  if (c.has(3)) o.mask = c.aligned(3, c.rank(0));
  return {scaled_dot_product_attention(c.each(0), c.each(1), c.each(2), o)};
}

}  // namespace

std::vector<NamedBatchRule> layer_batch_rules() {
  return {{"matmul", matmul_rule},
          {"addmm", addmm_rule},
          {"linear", linear_rule},
          {"einsum", einsum_rule},
          {"conv1d", conv_rule},
          {"conv2d", conv_rule},
          {"conv3d", conv_rule},
          {"conv_transpose1d", conv_transpose_rule},
          {"conv_transpose2d", conv_transpose_rule},
          {"conv_transpose3d", conv_transpose_rule},
          {"max_pool2d", max_pool2d_rule},
          {"max_pool3d", max_pool3d_rule},
          {"max_pool_with_indices", max_pool_with_indices_rule},
          {"avg_pool2d", avg_pool2d_rule},
          {"avg_pool3d", avg_pool3d_rule},
          {"adaptive_avg_pool2d", adaptive_avg_pool2d_rule},
          {"layer_norm", layer_norm_rule},
          {"rms_norm", rms_norm_rule},
          {"group_norm", group_norm_rule},
          {"batch_norm", batch_norm_rule},
          {"instance_norm", instance_norm_rule},
          {"scaled_dot_product_attention", attention_rule}};
}

}  // namespace core::func::detail

// Products, convolutions, poolings, norms and losses, on all samples at once.
#include <algorithm>
#include <cmath>
#include <string>

#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/loss.h"
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
Results max_pool2d_rule(const BatchedCall& c) {
  const MaxPool2dOptions o{two_sizes(c, "stride"), two_sizes(c, "padding"), two_sizes(c, "dilation"),
                           c.flag("ceil_mode")};
  return folded(c, 4, [&](const Tensor& x) { return max_pool2d(x, two_sizes(c, "kernel"), o); });
}
Results avg_pool2d_rule(const BatchedCall& c) {
  AvgPool2dOptions o{
      two_sizes(c, "stride"), two_sizes(c, "padding"), c.flag("ceil_mode"), c.flag("count_include_pad"), {}};
  if (c.integer("divisor") != 0) o.divisor_override = c.integer("divisor");
  return folded(c, 4, [&](const Tensor& x) { return avg_pool2d(x, two_sizes(c, "kernel"), o); });
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
Results group_norm_rule(const BatchedCall& c) {
  const std::int64_t groups = c.integer("groups");
  const Tensor weight = c.shared(1), bias = c.shared(2);
  return folded(c, c.rank(), [&](const Tensor& x) {
    return group_norm(x, groups, {.weight = weight, .bias = bias, .eps = c.number("eps")});
  });
}
/// Statistics of a batch are those of a sample's own: no rule.
Results batch_norm_rule(const BatchedCall& c) {
  if (c.flag("training") || c.rank() < 2) no_batch_rule();
  const BatchNormArguments a{.running_mean = c.shared(3),
                             .running_var = c.shared(4),
                             .weight = c.shared(1),
                             .bias = c.shared(2),
                             .training = false,
                             .eps = c.number("eps")};
  return folded(c, c.rank(), [&](const Tensor& x) { return batch_norm(x, a); });
}

Results attention_rule(const BatchedCall& c) {
  if (c.number("dropout") != 0) no_batch_rule();
  AttentionOptions o{.is_causal = c.flag("is_causal")};
  if (!std::isnan(c.number("scale"))) o.scale = c.number("scale");
  if (c.rank(0) != c.rank(1) || c.rank(0) != c.rank(2)) no_batch_rule();
  if (c.has(3)) o.mask = c.aligned(3, c.rank(0));
  return {scaled_dot_product_attention(c.each(0), c.each(1), c.each(2), o)};
}

/// The losses of the elements of each sample, brought to one number as it was asked.
Tensor reduced(const BatchedCall& c, const Tensor& each) {
  const auto reduction = static_cast<Reduction>(c.integer("reduction"));
  if (reduction == Reduction::none) return each;
  const Tensor flat = each.reshape({c.size, -1});
  return reduction == Reduction::mean ? mean(flat, {.dims = {1}}) : sum(flat, {.dims = {1}});
}
Results mse_rule(const BatchedCall& c) {
  const std::int64_t rank = std::max(c.rank(0), c.rank(1));
  return {reduced(c, square(c.aligned(0, rank) - c.aligned(1, rank)))};
}
/// Of classes by their number. What is ignored counts for nothing in a mean.
template <class Loss>
Results class_loss(const BatchedCall& c, Loss loss) {
  if (c.has(2) || c.rank(1) != std::max<std::int64_t>(c.rank(0) - 1, 0)) no_batch_rule();
  const auto reduction = static_cast<Reduction>(c.integer("reduction"));
  const std::int64_t ignored = c.integer("ignore_index");
  const bool single = c.rank(0) == 1;
  const Tensor scores = single ? c.each(0) : c.each(0).flatten(0, 1);
  const Tensor target = single ? c.each(1) : c.each(1).flatten(0, 1);
  const Tensor each = loss(scores, target, ignored);
  if (reduction == Reduction::none) return {each.reshape(c.output_sizes())};
  const Tensor total = sum(each.reshape({c.size, -1}), {.dims = {1}});
  if (reduction == Reduction::sum) return {total};
  const Tensor counts = sum(ne(target, ignored).reshape({c.size, -1}), {.dims = {1}});
  return {total / counts.to(total.dtype())};
}
Results cross_entropy_rule(const BatchedCall& c) {
  if (c.number("label_smoothing") != 0) no_batch_rule();
  return class_loss(c, [](const Tensor& scores, const Tensor& target, std::int64_t ignored) {
    return cross_entropy(scores, target, {.ignore_index = ignored, .reduction = Reduction::none});
  });
}
Results nll_rule(const BatchedCall& c) {
  return class_loss(c, [](const Tensor& scores, const Tensor& target, std::int64_t ignored) {
    return nll_loss(scores, target, {.ignore_index = ignored, .reduction = Reduction::none});
  });
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
          {"avg_pool2d", avg_pool2d_rule},
          {"adaptive_avg_pool2d", adaptive_avg_pool2d_rule},
          {"layer_norm", layer_norm_rule},
          {"rms_norm", rms_norm_rule},
          {"group_norm", group_norm_rule},
          {"batch_norm", batch_norm_rule},
          {"scaled_dot_product_attention", attention_rule},
          {"mse_loss", mse_rule},
          {"cross_entropy", cross_entropy_rule},
          {"nll_loss", nll_rule}};
}

}  // namespace core::func::detail

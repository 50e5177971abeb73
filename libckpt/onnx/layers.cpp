// Layers with weights, windows and attention as ONNX operators.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "libckpt/onnx/step.h"
#include "libcore/tensor/factory.h"

namespace ckpt::onnx {
namespace {

using core::DType;
using core::Tensor;

/// Before and behind each dimension, as ONNX has it: all the first ones, then all the last ones.
Integers on_both_sides(const Integers& padding) {
  Integers pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

/// What keeps the size of an image: of an odd sum, one more behind.
Integers same_pads(const Integers& kernel, const Integers& dilation) {
  Integers before, behind;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t total = dilation[i] * (kernel[i] - 1);
    before.push_back(total / 2);
    behind.push_back(total - total / 2);
  }
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

std::vector<Attribute> window_attributes(Step& s, const Integers& kernel) {
  const bool same = s.is_given("same") && s.flag("same");
  return {{"kernel_shape", kernel},
          {"strides", s.integers("stride")},
          {"dilations", s.integers("dilation")},
          {"pads", same ? same_pads(kernel, s.integers("dilation")) : on_both_sides(s.integers("padding"))},
          {"group", s.integer("groups")}};
}

void check_batch(Step& s) {
  if (s.rank(0) != s.rank(1)) s.refuse("an image without a batch has no operator");
}

void conv(Step& s) {
  check_batch(s);
  s.set(s.value("Conv", {s.in(0), s.in(1), s.in(2)}, window_attributes(s, s.fixed_sizes(1, 2))));
}

void conv_transpose(Step& s) {
  check_batch(s);
  std::vector<Attribute> attributes = window_attributes(s, s.fixed_sizes(1, 2));
  attributes.push_back({"output_padding", s.integers("output_padding")});
  s.set(s.value("ConvTranspose", {s.in(0), s.in(1), s.in(2)}, std::move(attributes)));
}

/// Whether sizes are rounded up. ONNX keeps a last window that begins in the padding behind, which the module leaves
/// out: then they are rounded down.
std::int64_t rounds_up(Step& s, const Integers& kernel, const Integers& dilation) {
  if (!s.flag("ceil_mode")) return 0;
  const Integers stride = s.integers("stride"), padding = s.integers("padding");
  bool up = false, cut = false;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t window = dilation[i] * (kernel[i] - 1) + 1;
    if (window >= stride[i] + padding[i]) {
      up = true;
      continue;
    }
    const auto d = static_cast<std::int64_t>(i) + s.rank() - static_cast<std::int64_t>(kernel.size());
    const std::int64_t in = s.fixed_sizes(0, d)[0], room = in + 2 * padding[i] - window;
    const std::int64_t out = s.output().size(d), down = room / stride[i] + 1;
    const std::int64_t rounded = (room + stride[i] - 1) / stride[i] + 1;
    if (out != rounded) cut = true;
    if (out != down) up = true;
  }
  if (up && cut) s.refuse("ceil_mode with a last window in the padding has no operator");
  return up ? 1 : 0;
}

void max_pool(Step& s) {
  if (s.rank() != 4) s.refuse("an image without a batch has no operator");
  s.set(s.value("MaxPool", {s.in(0)},
                {{"kernel_shape", s.integers("kernel")},
                 {"strides", s.integers("stride")},
                 {"pads", on_both_sides(s.integers("padding"))},
                 {"dilations", s.integers("dilation")},
                 {"ceil_mode", rounds_up(s, s.integers("kernel"), s.integers("dilation"))}}));
}

void avg_pool(Step& s) {
  if (s.rank() != 4) s.refuse("an image without a batch has no operator");
  if (s.integer("divisor") != 0) s.refuse("a divisor of its own has no operator");
  s.set(s.value("AveragePool", {s.in(0)},
                {{"kernel_shape", s.integers("kernel")},
                 {"strides", s.integers("stride")},
                 {"pads", on_both_sides(s.integers("padding"))},
                 {"ceil_mode", rounds_up(s, s.integers("kernel"), {1, 1})},
                 {"count_include_pad", s.integer("count_include_pad")}}));
}

/// (to, from): row i is the mean over what output i sees.
Tensor means_of(std::int64_t from, std::int64_t to, DType dtype) {
  std::vector<double> rows(static_cast<std::size_t>(to * from), 0);
  for (std::int64_t i = 0; i < to; ++i) {
    const std::int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
    for (std::int64_t k = begin; k < end; ++k) {
      rows[static_cast<std::size_t>(i * from + k)] = 1 / static_cast<double>(end - begin);
    }
  }
  return core::from_values(rows, {.dtype = dtype}).reshape({to, from});
}

/// Over all pixels: a mean. Into windows of one size: a pooling. Else a product with the means on both sides.
void adaptive_avg_pool(Step& s) {
  const Integers in = s.fixed_sizes(0, s.rank() - 2);
  const std::int64_t h = s.output().size(-2), w = s.output().size(-1);
  if (in[0] == h && in[1] == w) return s.set(s.in(0));
  if (h == 1 && w == 1 && s.rank() == 4) return s.set(s.value("GlobalAveragePool", {s.in(0)}));
  if (in[0] % h == 0 && in[1] % w == 0 && s.rank() == 4) {
    const Integers window = {in[0] / h, in[1] / w};
    return s.set(s.value("AveragePool", {s.in(0)}, {{"kernel_shape", window}, {"strides", window}}));
  }
  const std::string rows = s.graph().constant(means_of(in[0], h, s.dtype()));
  const std::string columns = s.graph().constant(means_of(in[1], w, s.dtype()).t().contiguous());
  s.set(s.value("MatMul", {s.value("MatMul", {rows, s.in(0)}), columns}));
}

/// A weight or bias, or what stands for one that is not there.
std::string or_filled(Step& s, std::size_t i, const core::Shape& sizes, double value) {
  return s.has(i) ? s.in(i) : s.graph().constant(core::full(sizes, value, {.dtype = s.dtype()}));
}

void batch_norm(Step& s) {
  if (s.flag("training") || !s.has(3)) s.refuse("statistics of the batch itself have no operator");
  const core::Shape channels = {s.input(0).size(1)};
  s.set(s.value("BatchNormalization",
                {s.in(0), or_filled(s, 1, channels, 1), or_filled(s, 2, channels, 0), s.in(3), s.in(4)},
                {{"epsilon", s.number("eps")}}));
}

void layer_norm(Step& s) {
  const std::int64_t axes = s.integer("axes");
  const Integers sizes = s.fixed_sizes(0, s.rank() - axes);
  const core::Shape shape(std::span<const std::int64_t>(sizes.data(), sizes.size()));
  s.set(s.value("LayerNormalization", {s.in(0), or_filled(s, 1, shape, 1), s.in(2)},
                {{"axis", -axes}, {"epsilon", s.number("eps")}}));
}

/// The groups as channels of an image, normalised each, then scale and shift by channel.
void group_norm(Step& s) {
  const std::string x = s.in(0);
  const std::int64_t groups = s.integer("groups");
  const std::string flat = s.value("Reshape", {x, s.graph().list(Integers{0, groups, -1})});
  const std::string ones = s.graph().constant(core::ones({groups}, {.dtype = s.dtype()}));
  const std::string zeros = s.graph().constant(core::zeros({groups}, {.dtype = s.dtype()}));
  std::string y = s.value("InstanceNormalization", {flat, ones, zeros}, {{"epsilon", s.number("eps")}});
  y = s.value("Reshape", {y, s.value("Shape", {x})});
  Integers beside = {-1};
  for (std::int64_t d = 2; d < s.rank(); ++d) beside.push_back(1);
  if (s.has(1)) y = s.value("Mul", {y, s.value("Reshape", {s.in(1), s.graph().list(beside)})});
  if (s.has(2)) y = s.value("Add", {y, s.value("Reshape", {s.in(2), s.graph().list(beside)})});
  s.set(y);
}

std::string mean_of_last(Step& s, const std::string& x, std::int64_t axes) {
  Integers last;
  for (std::int64_t i = axes; i > 0; --i) last.push_back(-i);
  if (s.graph().opset() >= 18) return s.value("ReduceMean", {x, s.graph().list(last)});
  return s.value("ReduceMean", {x}, {{"axes", last}});
}

void rms_norm(Step& s) {
  const std::string x = s.in(0);
  const std::string mean = mean_of_last(s, s.value("Mul", {x, x}), s.integer("axes"));
  const std::string root = s.value("Sqrt", {s.value("Add", {mean, s.scalar(s.number("eps"))})});
  const std::string y = s.value("Div", {x, root});
  s.set(s.has(1) ? s.value("Mul", {y, s.in(1)}) : y);
}

void local_response_norm(Step& s) {
  if (s.integer("size") % 2 == 0) s.refuse("an even size has no operator");
  s.set(s.value("LRN", {s.in(0)},
                {{"size", s.integer("size")},
                 {"alpha", s.number("alpha")},
                 {"beta", s.number("beta")},
                 {"bias", s.number("k")}}));
}

void linear(Step& s) {
  if (s.rank() == 2 && s.rank(1) == 2)
    return s.set(s.value("Gemm", {s.in(0), s.in(1), s.in(2)}, {{"transB", std::int64_t{1}}}));
  const bool is_row = s.rank(1) == 1;
  const std::string weight = is_row ? s.in(1) : s.value("Transpose", {s.in(1)}, {{"perm", Integers{1, 0}}});
  const std::string y = s.value("MatMul", {s.in(0), weight});
  s.set(s.has(2) ? s.value("Add", {y, s.in(2)}) : y);
}

void matmul(Step& s) {
  s.set(s.value("MatMul", {s.in(0), s.in(1)}));
}

void addmm(Step& s) {
  s.set(s.value("Gemm", {s.in(1), s.in(2), s.in(0)}, {{"alpha", s.number("alpha")}, {"beta", s.number("beta")}}));
}

void einsum(Step& s) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < s.input_count(); ++i) operands.push_back(s.in(i));
  s.set(s.value("Einsum", std::move(operands), {{"equation", s.text("equation")}}));
}

void embedding(Step& s) {
  s.set(s.value("Gather", {s.in(1), s.in(0)}, {{"axis", std::int64_t{0}}}));
}

/// -infinity above the diagonal, 0 elsewhere: (queries, keys).
std::string causal_bias(Step& s) {
  const auto rank = static_cast<std::size_t>(s.rank());
  const std::string sizes =
      s.graph().list(std::vector<SizeTerm>{s.input_sizes(0)[rank - 2], s.input_sizes(1)[rank - 2]});
  const std::string lowest = s.scalar(-std::numeric_limits<double>::infinity());
  const std::string all = s.value("Expand", {lowest, sizes});
  return s.value("Trilu", {all, s.graph().scalar(1, DType::i64)}, {{"upper", std::int64_t{1}}});
}

void attention(Step& s) {
  if (s.number("dropout") != 0) s.refuse("dropout is active");
  Integers swapped;
  for (std::int64_t d = 0; d < s.rank(1); ++d) swapped.push_back(d);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  const double given = s.number("scale");
  const double scale =
      !std::isnan(given) ? given : 1 / std::sqrt(static_cast<double>(s.fixed_sizes(0, s.rank() - 1)[0]));
  const std::string keys = s.value("Transpose", {s.in(1)}, {{"perm", swapped}});
  std::string scores = s.value("MatMul", {s.value("Mul", {s.in(0), s.scalar(scale)}), keys});
  if (s.flag("is_causal")) scores = s.value("Add", {scores, causal_bias(s)});
  const bool masked = s.has(3) && s.input(3).dtype() == DType::boolean;
  if (masked) {
    scores = s.value("Where", {s.in(3), scores, s.scalar(-std::numeric_limits<double>::infinity())});
  } else if (s.has(3)) {
    scores = s.value("Add", {scores, s.in(3, s.dtype())});
  }
  std::string weights = s.value("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  // Where nothing takes part, there is no weight either.
  if (masked) weights = s.value("Where", {s.in(3), weights, s.scalar(0)});
  s.set(s.value("MatMul", {weights, s.in(2)}));
}

/// What each size is multiplied by, where that says more than the sizes; else "".
std::string scales_of(Step& s) {
  std::vector<double> factors = {1, 1};
  bool exact = true;
  for (std::int64_t d = 2; d < s.rank(); ++d) {
    factors.push_back(s.number(d == 2 ? "scale0" : d == 3 ? "scale1" : "scale2"));
    exact =
        exact && static_cast<double>(s.output().size(d)) == factors.back() * static_cast<double>(s.input(0).size(d));
  }
  if (factors.back() == 0 || exact) return "";
  return s.graph().constant(core::from_values(factors, {.dtype = DType::f32}));
}

/// Its sizes are those that the module asked for.
void interpolate(Step& s) {
  const std::string mode = s.text("mode");
  if (s.flag("antialias")) s.refuse("antialias has no operator");
  const bool nearest = mode == "nearest", cubic = mode == "bicubic";
  if (!nearest && !cubic && mode != "bilinear" && mode != "linear" && mode != "trilinear") {
    s.refuse("mode " + mode + " has no operator");
  }
  const char* place = nearest ? "asymmetric" : s.flag("align_corners") ? "align_corners" : "half_pixel";
  std::vector<Attribute> attributes = {{"mode", std::string(nearest ? "nearest"
                                                            : cubic ? "cubic"
                                                                    : "linear")},
                                       {"coordinate_transformation_mode", std::string(place)}};
  if (nearest) attributes.push_back({"nearest_mode", std::string("floor")});
  if (cubic) attributes.push_back({"cubic_coeff_a", -0.75});
  std::vector<std::string> inputs = {s.in(0), "", ""};
  const std::string scales = scales_of(s);
  if (scales.empty()) {
    inputs.push_back(s.graph().list(s.output_sizes()));
  } else {
    inputs[2] = scales;
  }
  s.set(s.value("Resize", std::move(inputs), std::move(attributes)));
}

}  // namespace

std::vector<NamedWriter> layer_writers() {
  return {{"conv1d", conv},
          {"conv2d", conv},
          {"conv3d", conv},
          {"conv_transpose1d", conv_transpose},
          {"conv_transpose2d", conv_transpose},
          {"conv_transpose3d", conv_transpose},
          {"max_pool2d", max_pool},
          {"avg_pool2d", avg_pool},
          {"adaptive_avg_pool2d", adaptive_avg_pool},
          {"batch_norm", batch_norm},
          {"layer_norm", layer_norm},
          {"group_norm", group_norm},
          {"rms_norm", rms_norm},
          {"local_response_norm", local_response_norm},
          {"linear", linear},
          {"matmul", matmul},
          {"addmm", addmm},
          {"einsum", einsum},
          {"embedding", embedding},
          {"scaled_dot_product_attention", attention},
          {"interpolate", interpolate}};
}

}  // namespace ckpt::onnx

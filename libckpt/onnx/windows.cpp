// Convolutions, poolings and resizing as ONNX operators.
#include <string>
#include <utility>

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

/// A pooling over the last dimensions; an image without a batch gets one for it.
template <class Pool>
std::string with_batch(Step& s, std::size_t spatial, Pool pool) {
  const bool single = s.rank() == static_cast<std::int64_t>(spatial) + 1;
  if (!single) return pool(s.in(0));
  const std::string front = s.graph().list(Integers{0});
  return s.value("Squeeze", {pool(s.value("Unsqueeze", {s.in(0), front})), front});
}

std::vector<Attribute> max_pool_attributes(Step& s) {
  return {{"kernel_shape", s.integers("kernel")},
          {"strides", s.integers("stride")},
          {"pads", on_both_sides(s.integers("padding"))},
          {"dilations", s.integers("dilation")},
          {"ceil_mode", rounds_up(s, s.integers("kernel"), s.integers("dilation"))}};
}

void max_pool(Step& s) {
  s.set(with_batch(s, s.integers("kernel").size(),
                   [&](const std::string& x) { return s.value("MaxPool", {x}, max_pool_attributes(s)); }));
}

/// Places count through all planes there, and through each by itself here.
void max_pool_with_indices(Step& s) {
  const std::size_t spatial = s.integers("kernel").size();
  if (s.rank() != static_cast<std::int64_t>(spatial) + 2) s.refuse("with places an image needs a batch");
  const std::string values = s.graph().unique("values"), places = s.graph().unique("places");
  s.graph().node("MaxPool", {s.in(0)}, {values, places}, max_pool_attributes(s));
  s.set(values, 0);
  std::string plane;
  for (std::size_t d = 2; d < spatial + 2; ++d) {
    const std::string size = s.graph().one(s.input_sizes(0)[d]);
    plane = plane.empty() ? size : s.value("Mul", {plane, size});
  }
  s.set(s.value("Mod", {places, plane}), 1);
}

void avg_pool(Step& s) {
  const Integers kernel = s.integers("kernel");
  if (s.integer("divisor") != 0) s.refuse("a divisor of its own has no operator");
  s.set(with_batch(s, kernel.size(), [&](const std::string& x) {
    return s.value("AveragePool", {x},
                   {{"kernel_shape", kernel},
                    {"strides", s.integers("stride")},
                    {"pads", on_both_sides(s.integers("padding"))},
                    {"ceil_mode", rounds_up(s, kernel, Integers(kernel.size(), 1))},
                    {"count_include_pad", s.integer("count_include_pad")}});
  }));
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

/// How pixels are found.
std::vector<Attribute> resize_attributes(Step& s, const std::string& mode) {
  const bool exact = mode == "nearest-exact", nearest = exact || mode == "nearest", cubic = mode == "bicubic";
  const char* place = nearest && !exact ? "asymmetric" : s.flag("align_corners") ? "align_corners" : "half_pixel";
  std::vector<Attribute> attributes = {{"mode", std::string(nearest ? "nearest"
                                                            : cubic ? "cubic"
                                                                    : "linear")},
                                       {"coordinate_transformation_mode", std::string(place)}};
  if (nearest) attributes.push_back({"nearest_mode", std::string(exact ? "round_prefer_ceil" : "floor")});
  if (cubic) attributes.push_back({"cubic_coeff_a", -0.75});
  return attributes;
}

/// Its sizes are those that the module asked for.
void interpolate(Step& s) {
  const std::string mode = s.text("mode");
  if (s.flag("antialias")) s.refuse("antialias has no operator with these numbers");
  if (mode == "area") {
    if (s.rank() != 4) s.refuse("mode area has operators for images alone");
    return adaptive_avg_pool(s);
  }
  std::vector<std::string> inputs = {s.in(0), "", ""};
  const std::string scales = scales_of(s);
  if (scales.empty()) {
    inputs.push_back(s.graph().list(s.output_sizes()));
  } else {
    inputs[2] = scales;
  }
  s.set(s.value("Resize", std::move(inputs), resize_attributes(s, mode)));
}

void grid_sample(Step& s) {
  if (s.rank() != 4) s.refuse("only images have an operator");
  s.set(s.value("GridSample", {s.in(0), s.in(1)},
                {{"mode", s.text("mode")},
                 {"padding_mode", s.text("padding_mode")},
                 {"align_corners", s.integer("align_corners")}}));
}

}  // namespace

std::vector<NamedWriter> window_writers() {
  return {{"conv1d", conv},
          {"conv2d", conv},
          {"conv3d", conv},
          {"conv_transpose1d", conv_transpose},
          {"conv_transpose2d", conv_transpose},
          {"conv_transpose3d", conv_transpose},
          {"max_pool2d", max_pool},
          {"max_pool3d", max_pool},
          {"max_pool_with_indices", max_pool_with_indices},
          {"avg_pool2d", avg_pool},
          {"avg_pool3d", avg_pool},
          {"adaptive_avg_pool2d", adaptive_avg_pool},
          {"interpolate", interpolate},
          {"grid_sample", grid_sample}};
}

}  // namespace ckpt::onnx

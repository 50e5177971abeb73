// The checks and sizes of convolutions of any rank.
#include "libcore/ops/raw/conv.h"

#include <array>
#include <string>

#include "libcore/base/fail.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

using core::detail::fail;

/// Everything about one dimension.
struct Line {
  std::int64_t in, kernel, stride, before, after, dilation, out;
};
using Lines = std::array<Line, 3>;  // depth, height, width; those that are missing are 1

bool any_below(const Shape& values, std::int64_t limit) {
  for (const std::int64_t value : values) {
    if (value < limit) return true;
  }
  return false;
}

void check_options(const Shape& stride, const Shape& padding, const Shape& dilation, std::int64_t groups) {
  if (any_below(padding, 0)) fail("negative padding is not supported");
  if (any_below(stride, 1)) fail("non-positive stride is not supported");
  if (any_below(dilation, 1)) fail("dilation should be greater than zero");
  if (groups < 1) fail("non-positive groups is not supported");
}

void check_types(const Tensor& x, const Tensor& weight, const Tensor& bias, std::size_t rank) {
  kernel::check_devices(x, {&weight, &bias});
  if (weight.dim() != static_cast<std::int64_t>(rank) + 2) {
    fail("Expected " + std::to_string(rank + 2) + "-dimensional weight, but got weight of size " +
         to_list(weight.sizes()) + " instead");
  }
  const auto mismatch = [&](const Tensor& other, const char* what) {
    if (!other.defined() || other.dtype() == x.dtype()) return;
    fail(std::string("Input type (") + kernel::c_type_name(x.dtype()) + ") and " + what + " type (" +
         kernel::c_type_name(other.dtype()) + ") should be the same");
  };
  mismatch(bias, "bias");
  mismatch(weight, "weight");
}

void check_bias(const Tensor& weight, const Tensor& bias, std::int64_t outputs, bool transposed) {
  if (!bias.defined() || bias.sizes() == Shape{outputs}) return;
  fail(std::string("Given ") + (transposed ? "transposed=1, " : "") + "weight of size " + to_list(weight.sizes()) +
       ", expected bias to be 1-dimensional with " + std::to_string(outputs) + " elements, but got bias of size " +
       to_list(bias.sizes()) + " instead");
}

void check_groups(const Tensor& weight, std::int64_t groups) {
  const std::string given = "Given groups=" + std::to_string(groups) + ", ";
  const std::int64_t outputs = weight.size(0);
  if (outputs < groups) {
    fail(given + "expected weight to be at least " + std::to_string(groups) +
         " at dimension 0, but got weight of size " + to_list(weight.sizes()) + " instead");
  }
  if (outputs % groups != 0) {
    fail(given + "expected weight to be divisible by " + std::to_string(groups) +
         " at dimension 0, but got weight of size [" + to_list(weight.sizes()) + "] instead");
  }
}

void check_channels(const Tensor& x, const Tensor& weight, std::int64_t groups) {
  const std::int64_t wanted = weight.size(1) * groups;
  if (x.size(1) != wanted) {
    fail("Given groups=" + std::to_string(groups) + ", weight of size " + to_list(weight.sizes()) + ", expected input" +
         to_list(x.sizes()) + " to have " + std::to_string(wanted) + " channels, but got " + std::to_string(x.size(1)) +
         " channels instead");
  }
}

/// As PyTorch's kernels see a line: an image of one row.
Shape as_image(const Tensor& line, std::size_t rank) {
  Shape sizes = line.sizes();
  if (rank == 1) sizes.insert(2, 1);
  return sizes;
}

void check_kernel_size(const Tensor& weight, std::size_t rank) {
  const Shape sizes = as_image(weight, rank);
  bool is_empty = false;
  for (std::size_t d = 2; d < sizes.size(); ++d) is_empty = is_empty || sizes[d] == 0;
  if (!is_empty) return;
  const auto size = [&](std::size_t d) { return std::to_string(sizes[d]); };
  fail("kernel size should be greater than zero, but got" +
       (rank == 3 ? ": " + size(2) + " x " + size(3) + " x " + size(4) + " (TxHxW)"
                  : " kernel_height: " + size(2) + " kernel_width: " + size(3)));
}

/// Of a transposed convolution only the batch and the channels of the input may be empty; an empty batch, all else.
void check_not_empty(const Tensor& x, const Tensor& weight, std::size_t rank) {
  const Shape input = as_image(x, rank), given = as_image(weight, rank);
  for (std::size_t d = 2; d < input.size(); ++d) {
    if (input[d] != 0 || input[0] == 0) continue;
    fail("Only zero batch or zero channel inputs are supported, but got input shape: " + to_list(input));
  }
  if (rank == 3 ? weight.numel() == 0 : given[1] == 0) {
    fail((rank == 3 ? "non-empty 5D (n_output_plane x n_input_plane x kernel_depth x kernel_height x kernel_width) "
                      "tensor expected for weight, but got: "
                    : "non-empty 2D or 4D weight tensor expected, but got: ") +
         to_list(given));
  }
  check_kernel_size(weight, rank);
}

std::string product_text(const Lines& lines, std::size_t rank, std::int64_t (*size)(const Line&)) {
  std::string text;
  for (std::size_t d = 3 - rank; d < 3; ++d) text += (text.empty() ? "" : " x ") + std::to_string(size(lines[d]));
  return "(" + text + ")";
}

std::int64_t span(const Line& line) {
  return line.dilation * (line.kernel - 1) + 1;
}
std::int64_t padded(const Line& line) {
  return line.in + line.before + line.after;
}

ConvPlan plan_of(const Lines& lines, std::size_t rank) {
  const auto& [depth, height, width] = lines;
  ConvPlan p;
  p.rank = rank;
  Conv2dSizes& s = p.plane;
  s.in_h = height.in, s.out_h = height.out, s.kernel_h = height.kernel, s.stride_h = height.stride;
  s.pad_top = height.before, s.pad_bottom = height.after, s.dilation_h = height.dilation;
  s.in_w = width.in, s.out_w = width.out, s.kernel_w = width.kernel, s.stride_w = width.stride;
  s.pad_left = width.before, s.pad_right = width.after, s.dilation_w = width.dilation;
  p.in_d = depth.in, p.out_d = depth.out, p.kernel_d = depth.kernel, p.stride_d = depth.stride;
  p.pad_front = depth.before, p.dilation_d = depth.dilation;
  return p;
}

Lines unit_lines() {
  const Line one{1, 1, 1, 0, 0, 1, 1};
  return {one, one, one};
}

void check_output_padding(const Shape& extra, const Shape& stride, const Shape& dilation) {
  static constexpr std::array<const char*, 3> kNames = {"depth", "height", "width"};
  bool bad = any_below(extra, 0);
  for (std::size_t i = 0; i < extra.size(); ++i) bad = bad || (extra[i] >= stride[i] && extra[i] >= dilation[i]);
  if (!bad) return;
  std::string text = "output padding must be smaller than either stride or dilation, but got";
  const auto add = [&](const char* what, const Shape& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      text += std::string(" ") + what + "_" + kNames[3 - values.size() + i] + ": " + std::to_string(values[i]);
    }
  };
  add("output_padding", extra);
  add("stride", stride);
  add("dilation", dilation);
  fail(text);
}

}  // namespace

ConvPlan conv_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& o, std::size_t rank) {
  using core::detail::spread;
  const Shape stride = spread(o.stride, rank, 1), padding = spread(o.padding, rank, 0);
  const Shape dilation = spread(o.dilation, rank, 1);
  const bool same = !o.rule.empty() && Padding(o.rule).is_same();
  check_options(stride, padding, dilation, o.groups);
  if (same && stride != Shape(rank, 1)) fail("padding='same' is not supported for strided convolutions");
  check_types(x, weight, bias, rank);
  check_groups(weight, o.groups);
  check_channels(x, weight, o.groups);
  if (x.size(1) != 0) check_kernel_size(weight, rank);
  check_bias(weight, bias, weight.size(0), false);
  Lines lines = unit_lines();
  bool fits = true;
  for (std::size_t i = 0; i < rank; ++i) {
    Line& line = lines[3 - rank + i];
    const auto dim = static_cast<std::int64_t>(i) + 2;
    line = {x.size(dim), weight.size(dim), stride[i], padding[i], padding[i], dilation[i], 0};
    if (same) line.before = (span(line) - 1) / 2, line.after = span(line) - 1 - line.before;
    fits = fits && padded(line) >= span(line);
    line.out = (padded(line) - span(line)) / line.stride + 1;
  }
  if (!fits) {
    fail("Calculated padded input size per channel: " + product_text(lines, rank, padded) +
         ". Kernel size: " + product_text(lines, rank, span) + ". Kernel size can't be greater than actual input size");
  }
  ConvPlan plan = plan_of(lines, rank);
  plan.plane.batch = x.size(0), plan.plane.in_channels = x.size(1);
  plan.plane.out_channels = weight.size(0), plan.plane.groups = o.groups;
  if (rank == 2) plan.plane.order = conv2d_order(x, weight);
  return plan;
}

ConvPlan transposed_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& o,
                         std::size_t rank) {
  using core::detail::spread;
  const Shape stride = spread(o.stride, rank, 1), padding = spread(o.padding, rank, 0);
  const Shape extra = spread(o.output_padding, rank, 0), dilation = spread(o.dilation, rank, 1);
  check_options(stride, padding, dilation, o.groups);
  check_types(x, weight, bias, rank);
  check_groups(weight, o.groups);
  if (x.size(1) != weight.size(0)) {
    fail("Given transposed=1, weight of size " + to_list(weight.sizes()) + ", expected input" + to_list(x.sizes()) +
         " to have " + std::to_string(weight.size(0)) + " channels, but got " + std::to_string(x.size(1)) +
         " channels instead");
  }
  const std::int64_t outputs = weight.size(1) * o.groups;
  check_bias(weight, bias, outputs, true);
  check_not_empty(x, weight, rank);
  check_output_padding(extra, stride, dilation);
  Lines lines = unit_lines();
  for (std::size_t i = 0; i < rank; ++i) {
    Line& line = lines[3 - rank + i];
    const auto dim = static_cast<std::int64_t>(i) + 2;
    line = {0, weight.size(dim), stride[i], padding[i], padding[i], dilation[i], x.size(dim)};
    line.in = (line.out - 1) * line.stride - 2 * padding[i] + span(line) + extra[i];
    // The output_padding that is a stride and longer would be room for an output that is not there.
    if (extra[i] >= line.stride) line.after -= extra[i];
    if (line.in < 1) fail("Trying to create tensor with negative dimension " + std::to_string(line.in));
  }
  ConvPlan plan = plan_of(lines, rank);
  plan.plane.batch = x.size(0), plan.plane.in_channels = outputs;
  plan.plane.out_channels = weight.size(0), plan.plane.groups = o.groups;
  if (rank == 2) plan.plane.order = conv2d_order(x, weight);
  return plan;
}

}  // namespace core::raw

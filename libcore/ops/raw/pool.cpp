#include "libcore/ops/raw/pool.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libcore/backend/op_tables.h"
#include "libcore/base/fail.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

using core::detail::fail;

using kernel::dense;

/// One dimension of a pooling.
struct Window {
  std::int64_t in, kernel, stride, pad, dilation;

  std::int64_t out(bool ceil_mode) const {
    const std::int64_t room = in + 2 * pad - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
    std::int64_t count = (room < 0 ? -((-room + stride - 1) / stride) : room / stride) + 1;
    if (ceil_mode && (count - 1) * stride >= in + pad)
      --count;  // the last window must begin inside or in the left padding
    return count;
  }
};

void check_window(const Window& w) {
  if (w.kernel < 1) fail("kernel size should be greater than zero, but got kernel size: " + std::to_string(w.kernel));
  if (w.stride < 1) fail("stride should be greater than zero, but got stride: " + std::to_string(w.stride));
  if (w.dilation < 1) fail("dilation should be greater than zero, but got dilation: " + std::to_string(w.dilation));
  if (w.pad < 0) fail("pad must be non-negative, but got pad: " + std::to_string(w.pad));
  if (w.pad > ((w.kernel - 1) * w.dilation + 1) / 2) {
    fail("pad should be at most half of effective kernel size, but got pad=" + std::to_string(w.pad) +
         ", kernel_size=" + std::to_string(w.kernel) + " and dilation=" + std::to_string(w.dilation));
  }
}

std::string by(std::int64_t planes, std::int64_t h, std::int64_t w) {
  return "(" + std::to_string(planes) + "x" + std::to_string(h) + "x" + std::to_string(w) + ")";
}

/// The three options that a pooling is made of.
struct PoolShape {
  Size2 kernel, stride, padding, dilation;
  bool ceil_mode;
};

/// Channels that lie side by side.
std::int64_t inner_channels(const Tensor& x, ImageOrder order) {
  return order == ImageOrder::channels_last ? x.size(1) : 1;
}

Pool2dSizes pool_sizes(const Tensor& x, const PoolShape& shape) {
  if (x.dim() != 3 && x.dim() != 4) fail("non-empty 3D or 4D (batch mode) tensor expected for input");
  if (x.size(-1) == 0 || x.size(-2) == 0 || x.size(-3) == 0) {
    fail("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:" +
         to_list(x.sizes()));
  }
  const Size2 stride = shape.stride.given() ? shape.stride : shape.kernel;
  const Window rows{x.size(-2), shape.kernel.h(), stride.h(), shape.padding.h(), shape.dilation.h()};
  const Window columns{x.size(-1), shape.kernel.w(), stride.w(), shape.padding.w(), shape.dilation.w()};
  check_window(rows);
  check_window(columns);
  const std::int64_t out_h = rows.out(shape.ceil_mode), out_w = columns.out(shape.ceil_mode);
  if (out_h < 1 || out_w < 1) {
    fail("Given input size: " + by(x.size(-3), rows.in, columns.in) +
         ". Calculated output size: " + by(x.size(-3), out_h, out_w) + ". Output size is too small");
  }
  const std::int64_t inner = inner_channels(x, kernel::order_of(x));
  return {x.numel() / (rows.in * columns.in * inner),
          rows.in,
          columns.in,
          out_h,
          out_w,
          rows.kernel,
          columns.kernel,
          rows.stride,
          columns.stride,
          rows.pad,
          columns.pad,
          rows.dilation,
          columns.dilation,
          inner};
}

/// What pool_sizes() said. The order of a single channel shows in strides alone.
ImageOrder order_of_result(const Tensor& x, std::int64_t inner) {
  if (inner != 1) return ImageOrder::channels_last;
  return x.dim() == 4 && x.size(1) == 1 ? kernel::order_of(x) : ImageOrder::channels_first;
}

/// The sizes of x with other planes.
Shape with_planes(const Tensor& x, std::int64_t h, std::int64_t w) {
  Shape sizes = x.sizes();
  sizes[sizes.size() - 2] = h;
  sizes[sizes.size() - 1] = w;
  return sizes;
}

std::int64_t plane_size(const Shape& sizes) {
  return sizes[sizes.size() - 2] * sizes[sizes.size() - 1];
}

AdaptivePool2dParams adaptive_params(const Shape& in, const Shape& out, ImageOrder order) {
  const std::size_t n = in.size();
  const std::int64_t inner = order == ImageOrder::channels_last ? in[1] : 1;
  return {in.numel() / (plane_size(in) * inner), in[n - 2], in[n - 1], out[n - 2], out[n - 1], nullptr, nullptr, inner};
}

bool is_2x2(const Pool2dSizes& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 && s.pad_w == 0 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.in_w < (std::int64_t{1} << 30) && s.out_h * 2 <= s.in_h &&
         s.out_w * 2 <= s.in_w;
}

}  // namespace

Pool2dSizes max_pool2d_windows(const Tensor& x, Size2 kernel, const MaxPool2dOptions& o) {
  return pool_sizes(x, {kernel, o.stride, o.padding, o.dilation, o.ceil_mode});
}

ValuesIndices max_pool2d(const Tensor& x, Size2 kernel, const MaxPool2dOptions& o) {
  const core::detail::OpScope scope("max_pool2d_with_indices", x);
  const Pool2dSizes sizes = max_pool2d_windows(x, kernel, o);
  const ImageOrder order = order_of_result(x, sizes.inner);
  ValuesIndices out;
  out.values = kernel::empty_as(x, with_planes(x, sizes.out_h, sizes.out_w), order);
  out.indices = make_strided(out.values.sizes(), out.values.strides(), DType::i64, backend_of(x));
  if (x.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x, order);
  const NnTable* table = backend_of(x).ops().nn;
  const bool usual = is_2x2(sizes) && table != nullptr && table->max_pool2d_2x2[static_cast<std::size_t>(x.dtype())];
  kernel::run(
      "max_pool2d", x, usual ? &NnTable::max_pool2d_2x2 : &NnTable::max_pool2d,
      MaxPool2dParams{sizes, in.raw_data(), out.values.mutable_raw_data(), out.indices.mutable_data<std::int64_t>()});
  return out;
}

BlockedMaxPool max_pool2d_of_image(const Tensor& x, Size2 kernel, const MaxPool2dOptions& o, KeepTaps keep) {
  const core::detail::OpScope scope("max_pool2d_with_indices", x);
  constexpr std::int64_t kMostTaps = 255;
  if (!blocked::is_blocked(x) || x.dim() != 4 || kernel.h() * kernel.w() > kMostTaps) return {};
  BlockedMaxPool out{{}, nullptr, pool_sizes(x, {kernel, o.stride, o.padding, o.dilation, o.ceil_mode})};
  const Shape sizes = with_planes(x, out.sizes.out_h, out.sizes.out_w);
  if (!blocked::may_be_blocked(x, sizes)) return {};
  const blocked::Image in = blocked::image(x);
  const ImageShape shape = blocked::shape_of(sizes);
  out.sizes.planes = shape.batch * shape.blocks() * 16;
  blocked::Bytes values = blocked::make_bytes(shape.count());
  values->finite = in.bytes && in.bytes->finite;
  auto taps = std::make_shared<std::vector<std::uint8_t>>();
  if (keep == KeepTaps::yes) taps->resize(static_cast<std::size_t>(shape.count()));
  blocked::table_of(x).max_pool({out.sizes, in.data, values->data(), taps->empty() ? nullptr : taps->data()});
  out.values = blocked::make(sizes, {.bytes = std::move(values)}, backend_of(x));
  out.taps = std::move(taps);
  out.output_sizes = sizes;
  return out;
}

Tensor max_pool2d_of_image_grad(const Tensor& output_grad, const BlockedMaxPool& forward) {
  const core::detail::OpScope scope("max_pool2d_with_indices_backward", output_grad);
  const Shape sizes = with_planes(output_grad, forward.sizes.in_h, forward.sizes.in_w);
  blocked::PendingPoolGrad pending{forward.sizes, blocked::image(output_grad).bytes, forward.taps};
  blocked::Value value{.pool_grad = std::make_shared<const blocked::PendingPoolGrad>(std::move(pending))};
  return blocked::make(sizes, std::move(value), backend_of(output_grad));
}

Tensor indices_of(const BlockedMaxPool& forward, Backend& backend) {
  const Pool2dSizes& s = forward.sizes;
  const std::int64_t picked = s.out_h * s.out_w;
  Tensor out = make(forward.output_sizes, DType::i64, backend);
  auto* to = out.mutable_data<std::int64_t>();
  const ImageShape shape = blocked::shape_of(forward.output_sizes);
  for (std::int64_t plane = 0; plane < shape.batch * shape.channels; ++plane) {
    const std::int64_t n = plane / shape.channels, c = plane % shape.channels;
    const std::uint8_t* taps = forward.taps->data() + (n * shape.blocks() + c / 16) * picked * 16 + c % 16;
    for (std::int64_t i = 0; i < picked; ++i) {
      const std::int64_t tap = taps[i * 16];
      const std::int64_t h = i / s.out_w * s.stride_h - s.pad_h + tap / s.kernel_w * s.dilation_h;
      const std::int64_t w = i % s.out_w * s.stride_w - s.pad_w + tap % s.kernel_w * s.dilation_w;
      to[plane * picked + i] = h * s.in_w + w;
    }
  }
  return out;
}

namespace {
/// The planes of a picking, whose windows are not known yet.
PickParams pick_params(const Shape& planes, const Tensor& indices, ImageOrder order) {
  const std::int64_t size = plane_size(planes), inner = order == ImageOrder::channels_last ? planes[1] : 1;
  PickParams params{planes.numel() / (size * inner), size,    plane_size(indices.sizes()),
                    indices.data<std::int64_t>(),    nullptr, nullptr};
  params.windows.inner = inner;
  return params;
}
}  // namespace

Tensor gather_picked(const Tensor& planes, const Tensor& indices) {
  const core::detail::OpScope scope("gather", planes, indices);
  const ImageOrder order = kernel::order_of(indices);
  Tensor out = kernel::empty_as(planes, indices.sizes(), order);
  if (out.numel() == 0 || !kernel::has_bytes(planes)) return out;
  const Tensor in = dense(planes, order), at = dense(indices, order);
  PickParams params = pick_params(planes.sizes(), at, order);
  params.in = in.raw_data();
  params.out = out.mutable_raw_data();
  kernel::run("max_pool2d_backward", planes, &NnTable::gather_picked, params);
  return out;
}

Tensor scatter_picked(const Tensor& values, const Tensor& indices, const PickedPlanes& planes) {
  const core::detail::OpScope scope("max_pool2d_with_indices_backward", values, indices);
  const ImageOrder order = kernel::order_of(indices);
  Tensor out = kernel::empty_as(values, planes.sizes, order);
  if (out.numel() == 0 || !kernel::has_bytes(values)) return out;
  const Tensor in = dense(values, order), at = dense(indices, order);
  PickParams params = pick_params(planes.sizes, at, order);
  const std::int64_t inner = params.windows.inner;
  params.windows = planes.windows;
  params.windows.inner = inner;
  params.in = in.raw_data();
  params.out = out.mutable_raw_data();
  kernel::run("max_pool2d_backward", values, &NnTable::scatter_picked, params);
  return out;
}

AvgPool2dParams avg_pool2d_plan(const Tensor& x, Size2 kernel, const AvgPool2dOptions& o) {
  if (o.divisor_override == 0) fail("divisor must be not zero");
  return {pool_sizes(x, {kernel, o.stride, o.padding, 1, o.ceil_mode}), o.count_include_pad,
          o.divisor_override.value_or(0), nullptr, nullptr};
}

namespace {
/// Of a blocked image; undefined for any other, and where a single pixel is left.
Tensor avg_pool2d_of_image(const Tensor& x, AvgPool2dParams plan) {
  const Shape sizes = with_planes(x, plan.sizes.out_h, plan.sizes.out_w);
  if (x.dim() != 4 || !blocked::is_blocked(x) || !blocked::may_be_blocked(x, sizes)) return {};
  const blocked::Image in = blocked::image(x);
  const ImageShape shape = blocked::shape_of(sizes);
  blocked::Bytes out = blocked::make_bytes(shape.count());
  out->finite = in.bytes && in.bytes->finite;
  plan.sizes.planes = shape.batch * shape.blocks() * 16;
  plan.in = in.data;
  plan.out = out->data();
  blocked::table_of(x).avg_pool(plan);
  return blocked::make(sizes, {.bytes = std::move(out)}, backend_of(x));
}
}  // namespace

Tensor avg_pool2d(const Tensor& x, AvgPool2dParams plan) {
  const core::detail::OpScope scope("avg_pool2d", x);
  if (Tensor out = avg_pool2d_of_image(x, plan); out.defined()) return out;
  const ImageOrder order = order_of_result(x, plan.sizes.inner);
  Tensor out = kernel::empty_as(x, with_planes(x, plan.sizes.out_h, plan.sizes.out_w), order);
  if (out.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x, order);
  plan.in = in.raw_data();
  plan.out = out.mutable_raw_data();
  kernel::run("avg_pool2d", x, &NnTable::avg_pool2d, plan);
  return out;
}

Tensor avg_pool2d_grad(const Tensor& output_grad, AvgPool2dParams plan, const Shape& input_sizes) {
  const core::detail::OpScope scope("avg_pool2d_backward", output_grad);
  const ImageOrder order = order_of_result(output_grad, plan.sizes.inner);
  Tensor out = kernel::empty_as(output_grad, input_sizes, order);
  if (out.numel() == 0 || !kernel::has_bytes(output_grad)) return out;
  const Tensor grad = dense(output_grad, order);
  plan.in = grad.raw_data();
  plan.out = out.mutable_raw_data();
  kernel::run("avg_pool2d_backward", output_grad, &NnTable::avg_pool2d_grad, plan);
  return out;
}

Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveSize& output) {
  const core::detail::OpScope scope("_adaptive_avg_pool2d", x);
  if (x.dim() != 3 && x.dim() != 4) {
    x.size(-2);  // PyTorch's text for too few dimensions
    fail("adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got " + to_list(x.sizes()));
  }
  const ImageOrder order = kernel::order_of(x);
  Tensor out = kernel::empty_as(x, with_planes(x, output.h.value_or(x.size(-2)), output.w.value_or(x.size(-1))), order);
  if (out.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x, order);
  AdaptivePool2dParams params = adaptive_params(x.sizes(), out.sizes(), order);
  params.in = in.raw_data();
  params.out = out.mutable_raw_data();
  kernel::run("adaptive_avg_pool2d", x, &NnTable::adaptive_avg_pool2d, params);
  return out;
}

Tensor adaptive_avg_pool2d_grad(const Tensor& output_grad, const Shape& input_sizes, ImageOrder order) {
  const core::detail::OpScope scope("_adaptive_avg_pool2d_backward", output_grad);
  Tensor out = kernel::empty_as(output_grad, input_sizes, order);
  if (out.numel() == 0 || !kernel::has_bytes(output_grad)) return out;
  const Tensor grad = dense(output_grad, order);
  AdaptivePool2dParams params = adaptive_params(input_sizes, output_grad.sizes(), order);
  params.in = grad.raw_data();
  params.out = out.mutable_raw_data();
  kernel::run("adaptive_avg_pool2d_backward", output_grad, &NnTable::adaptive_avg_pool2d_grad, params);
  return out;
}

}  // namespace core::raw

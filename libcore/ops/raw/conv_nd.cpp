// Convolutions of one and three dimensions out of those of planes: a line is a plane of height 1, a volume is convolved
// tap by tap of its depth, each tap over all slices it reaches at once.
#include "libcore/ops/raw/conv.h"

#include <algorithm>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

Tensor reshaped(const Tensor& x, const Shape& sizes) {
  return x.detach().reshape(sizes);
}

Shape plane_weight(const Conv2dSizes& s) {
  return {s.out_channels, s.in_channels / s.groups, s.kernel_h, s.kernel_w};
}

/// The outputs that tap `k` of the depth reaches, and the first input slice under them.
struct Reach {
  std::int64_t first_out, count, first_in;
};

Reach reach(const ConvPlan& p, std::int64_t k) {
  const std::int64_t offset = k * p.dilation_d - p.pad_front;  // input slice = out * stride + offset
  const std::int64_t first = offset >= 0 ? 0 : (-offset + p.stride_d - 1) / p.stride_d;
  const std::int64_t room = p.in_d - 1 - offset;
  const std::int64_t last = room < 0 ? -1 : std::min(p.out_d - 1, room / p.stride_d);
  return {first, std::max<std::int64_t>(0, last - first + 1), first * p.stride_d + offset};
}

/// Slices of a volume (N, C, D, H, W) as a batch of planes (N * count, C, H, W).
Tensor slices(const Tensor& volume, std::int64_t first, std::int64_t count, std::int64_t step) {
  const Tensor part = volume.slice(2, first, first + (count - 1) * step + 1, step);
  return part.permute({0, 2, 1, 3, 4}).reshape({-1, volume.size(1), volume.size(3), volume.size(4)});
}

/// Adds such planes to slices of a volume.
void add_slices(const Tensor& volume, const Tensor& planes, const Reach& r, std::int64_t first, std::int64_t step) {
  const Tensor part = volume.slice(2, first, first + (r.count - 1) * step + 1, step);
  part.add_(planes.reshape({volume.size(0), r.count, volume.size(1), volume.size(3), volume.size(4)})
                .permute({0, 2, 1, 3, 4}));
}

Conv2dSizes batch_of(const ConvPlan& p, const Reach& r) {
  Conv2dSizes sizes = p.plane;
  sizes.batch *= r.count;
  return sizes;
}

Tensor zeros_as(const Tensor& x, const Shape& sizes) {
  Tensor out = kernel::empty_as(x, sizes);
  fill_into(out, 0);
  return out;
}

Tensor convolve_volume(const Tensor& x, const Tensor& weight, const ConvPlan& p) {
  const Tensor out = zeros_as(x, p.output_sizes());
  for (std::int64_t k = 0; k < p.kernel_d; ++k) {
    const Reach r = reach(p, k);
    if (r.count == 0) continue;
    const Tensor planes = slices(x, r.first_in, r.count, p.stride_d);
    add_slices(out, conv2d(planes, weight.select(2, k), {}, batch_of(p, r)), r, r.first_out, 1);
  }
  return out;
}

Tensor volume_input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& p) {
  const Tensor out = zeros_as(output_grad, p.input_sizes());
  for (std::int64_t k = 0; k < p.kernel_d; ++k) {
    const Reach r = reach(p, k);
    if (r.count == 0) continue;
    const Tensor planes = slices(output_grad, r.first_out, r.count, 1);
    add_slices(out, conv2d_input_grad(planes, weight.select(2, k), batch_of(p, r)), r, r.first_in, p.stride_d);
  }
  return out;
}

Tensor volume_weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& p) {
  const Tensor out = zeros_as(x, p.weight_sizes());
  for (std::int64_t k = 0; k < p.kernel_d; ++k) {
    const Reach r = reach(p, k);
    if (r.count == 0) continue;
    const Tensor grads = slices(output_grad, r.first_out, r.count, 1);
    const Tensor planes = slices(x, r.first_in, r.count, p.stride_d);
    out.select(2, k).copy_(conv2d_weight_grad(grads, planes, batch_of(p, r), false).weight);
  }
  return out;
}

Tensor channel_sums(const Tensor& output_grad) {
  Shape dims;
  for (std::int64_t d = 0; d < output_grad.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return reduce(ReduceOp::sum, output_grad, {.dims = dims});
}

Shape planes_of(std::int64_t batch, std::int64_t channels, std::int64_t h, std::int64_t w) {
  return {batch, channels, h, w};
}

}  // namespace

Shape ConvPlan::input_sizes() const {
  if (rank == 1) return {plane.batch, plane.in_channels, plane.in_w};
  if (rank == 2) return planes_of(plane.batch, plane.in_channels, plane.in_h, plane.in_w);
  return {plane.batch, plane.in_channels, in_d, plane.in_h, plane.in_w};
}

Shape ConvPlan::output_sizes() const {
  if (rank == 1) return {plane.batch, plane.out_channels, plane.out_w};
  if (rank == 2) return planes_of(plane.batch, plane.out_channels, plane.out_h, plane.out_w);
  return {plane.batch, plane.out_channels, out_d, plane.out_h, plane.out_w};
}

Shape ConvPlan::weight_sizes() const {
  const std::int64_t channels = plane.in_channels / plane.groups;
  if (rank == 1) return {plane.out_channels, channels, plane.kernel_w};
  if (rank == 2) return plane_weight(plane);
  return {plane.out_channels, channels, kernel_d, plane.kernel_h, plane.kernel_w};
}

namespace {

/// Volumes of 16 bits are summed over their taps in f32 and rounded once.
bool is_volume_of_16_bits(const Tensor& x) {
  return compute_dtype(x.dtype()) != x.dtype();
}
Tensor in_f32(const Tensor& x) {
  return x.defined() ? cast(x.detach(), DType::f32) : x;
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& p) {
  const core::detail::OpScope scope("convolution", x, weight, bias);
  if (p.rank == 2) return conv2d(x, weight, bias, p.plane, p.weight_use);
  const NoGradGuard no_history;
  if (p.rank == 1) {
    const Tensor image = reshaped(x, planes_of(p.plane.batch, p.plane.in_channels, 1, p.plane.in_w));
    return reshaped(conv2d(image, reshaped(weight, plane_weight(p.plane)), bias, p.plane), p.output_sizes());
  }
  if (is_volume_of_16_bits(x)) return cast(convolution(in_f32(x), in_f32(weight), in_f32(bias), p), x.dtype());
  const Tensor out = convolve_volume(x.detach(), weight.detach(), p);
  if (bias.defined()) out.add_(reshaped(bias, {1, -1, 1, 1, 1}));
  return out;
}

Tensor convolution_input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& p) {
  const core::detail::OpScope scope("convolution_backward", output_grad, weight);
  if (p.rank == 2) return conv2d_input_grad(output_grad, weight, p.plane);
  const NoGradGuard no_history;
  if (p.rank == 3 && is_volume_of_16_bits(weight)) {
    return cast(convolution_input_grad(in_f32(output_grad), in_f32(weight), p), weight.dtype());
  }
  if (p.rank == 3) return volume_input_grad(output_grad.detach(), weight.detach(), p);
  const Tensor grad = reshaped(output_grad, planes_of(p.plane.batch, p.plane.out_channels, 1, p.plane.out_w));
  return reshaped(conv2d_input_grad(grad, reshaped(weight, plane_weight(p.plane)), p.plane), p.input_sizes());
}

WeightGrads convolution_weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& p, bool with_bias) {
  const core::detail::OpScope scope("convolution_backward", output_grad, x);
  if (p.rank == 2) return conv2d_weight_grad(output_grad, x, p.plane, with_bias);
  const NoGradGuard no_history;
  if (p.rank == 3 && is_volume_of_16_bits(x)) {
    WeightGrads wide = convolution_weight_grad(in_f32(output_grad), in_f32(x), p, with_bias);
    return {cast(wide.weight, x.dtype()), with_bias ? cast(wide.bias, x.dtype()) : Tensor()};
  }
  if (p.rank == 3) {
    return {volume_weight_grad(output_grad.detach(), x.detach(), p), with_bias ? channel_sums(output_grad) : Tensor()};
  }
  const Tensor grad = reshaped(output_grad, planes_of(p.plane.batch, p.plane.out_channels, 1, p.plane.out_w));
  const Tensor image = reshaped(x, planes_of(p.plane.batch, p.plane.in_channels, 1, p.plane.in_w));
  WeightGrads out = conv2d_weight_grad(grad, image, p.plane, with_bias);
  out.weight = reshaped(out.weight, p.weight_sizes());
  return out;
}

}  // namespace core::raw

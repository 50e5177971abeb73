#include "libcore/ops/raw/conv.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libcore/backend/image_order.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

using kernel::data_or_null;
using kernel::dense;

Tensor zeroed(const Tensor& out) {
  fill_into(out, 0);
  return out;
}

Shape image_sizes(const Conv2dSizes& s) {
  return {s.batch, s.in_channels, s.in_h, s.in_w};
}
Shape output_sizes(const Conv2dSizes& s) {
  return {s.batch, s.out_channels, s.out_h, s.out_w};
}

/// Whether a pass that takes `image` may run on images in blocks. Turning one that lies in ordinary order costs as much
/// as some convolutions do.
bool may_run_on_images(const Tensor& image, const Conv2dSizes& s) {
  return blocked::may_be_blocked(image, output_sizes(s)) && (blocked::is_blocked(image) || !stays_in_order(s));
}

bool on_images(const Tensor& image, const Conv2dSizes& s, ConvPass pass) {
  return may_run_on_images(image, s) && blocked::table_of(image).conv_fits(s, pass);
}

/// Whether there is a kernel for a weight that is packed, such as one for narrow groups as they are.
bool runs_packed(const Tensor& x, const Conv2dSizes& s) {
  return may_run_on_images(x, s) && blocked::table_of(x).packed_fits(s);
}

/// The same convolution in groups of sixteen channels, for which there are fast kernels: several narrow groups become
/// one, with zeros between them. Or as it is.
Conv2dSizes widened(Conv2dSizes s) {
  const std::int64_t width = s.in_channels / s.groups;
  const bool fits = s.groups > 1 && s.in_channels == s.out_channels && width > 1 && width < 16 && 16 % width == 0;
  if (!fits || !lies_in_blocks(s.in_channels)) return s;  // an image of few channels has no block to be read as one
  s.groups = blocked::shape_of(image_sizes(s)).blocks();
  s.in_channels = s.out_channels = s.groups * 16;
  return s;
}

/// weight (channels, width, kh, kw) to (more channels, 16, kh, kw).
std::vector<float> widened_weight(const Tensor& weight, const Conv2dSizes& wide) {
  const std::int64_t width = weight.size(1), taps = wide.kernel_h * wide.kernel_w;
  std::vector<float> result(static_cast<std::size_t>(wide.out_channels * 16 * taps), 0.0F);
  const auto* from = static_cast<const float*>(weight.raw_data());
  for (std::int64_t out = 0; out < weight.size(0); ++out) {
    const std::int64_t first = out % 16 / width * width;  // input channel of the wide group
    std::copy_n(from + out * width * taps, width * taps, result.data() + (out * 16 + first) * taps);
  }
  return result;
}

/// The weight as the kernel for `s` wants it.
blocked::Bytes packed_weight(const Tensor& weight, const Tensor& bias, const Conv2dSizes& s) {
  const ImageTable& table = blocked::table_of(weight);
  const PackedForm order = table.packed_form(s, bias.defined());
  const std::int64_t count = s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w;
  const bool wide = count != weight.numel();
  const auto floats = order.bytes == 0 ? count : static_cast<std::int64_t>(order.bytes / sizeof(float));
  const std::string key = (wide ? "wide" : "") + std::string(order.form);
  return packed_weights::find_or_pack(weight, key, floats, [&](float* to) {
    const std::vector<float> more = wide ? widened_weight(weight, s) : std::vector<float>();
    const float* from = wide ? more.data() : static_cast<const float*>(weight.raw_data());
    order.bytes == 0 ? void(std::copy_n(from, count, to)) : table.pack({s, bias.defined(), from, to});
  });
}

/// Run when somebody needs the values, with what comes behind it. `run`: how it is run, as widened().
Tensor pending_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& s,
                      const Conv2dSizes& run) {
  auto conv = std::make_shared<blocked::PendingConv>();
  conv->sizes = run;
  conv->image = blocked::frozen_image(x);
  conv->weight = packed_weight(weight, bias, run);
  if (bias.defined()) {
    const auto* from = static_cast<const float*>(bias.raw_data());
    conv->bias.assign(from, from + bias.numel());
    conv->bias.resize(static_cast<std::size_t>(run.out_channels));
  }
  return blocked::make(output_sizes(s), {.conv = std::move(conv)}, backend_of(x));
}

/// Of single pixels by single taps: a product of matrices.
bool is_product(const Tensor& x, const Conv2dSizes& s) {
  return x.dtype() == DType::f32 && s.groups == 1 && s.in_h * s.in_w == 1 && s.out_h * s.out_w == 1 &&
         s.kernel_h * s.kernel_w == 1 && x.device().is_cpu();
}

Tensor conv2d_as_product(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& s) {
  const Tensor in = dense(x), w = dense(weight);
  const std::int64_t inputs = s.in_channels, outputs = s.out_channels;
  const Tensor pixels = view(in, {s.batch, inputs}, {inputs, 1}, in.storage_offset());
  Tensor out;
  if (bias.defined()) {
    out = try_linear(pixels, view(w, {outputs, inputs}, {inputs, 1}, w.storage_offset()), dense(bias));
  } else {
    out = product(pixels, view(w, {inputs, outputs}, {1, inputs}, w.storage_offset()), {});
  }
  return view(out, output_sizes(s), {outputs, 1, 1, 1}, 0);
}

Tensor conv2d_of_images(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& s,
                        WeightUse use) {
  const Tensor w = dense(weight), b = dense(bias);
  if (use == WeightUse::again) return pending_conv2d(x, w, b, s, s);
  const blocked::Image in = blocked::image(x);
  blocked::Bytes out = blocked::make_bytes(blocked::shape_of(output_sizes(s)).count());
  blocked::table_of(x).conv({s, in.data, static_cast<const float*>(w.raw_data()), nullptr,
                             static_cast<const float*>(data_or_null(b)), out->data()});
  return blocked::make(output_sizes(s), {.bytes = std::move(out)}, backend_of(x));
}

Tensor conv2d_input_grad_of_images(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& s) {
  const Tensor w = dense(weight);
  const blocked::Image grad = blocked::image(output_grad);
  const ImageTable& table = blocked::table_of(output_grad);
  const Shape sizes = image_sizes(s);
  const auto* weights = static_cast<const float*>(w.raw_data());
  if (!lies_in_blocks(s.in_channels)) {
    Tensor out = kernel::empty_as(output_grad, sizes);
    table.conv_input_grad({s, grad.data, weights, static_cast<float*>(out.mutable_raw_data())});
    return out;
  }
  blocked::Bytes image = blocked::make_bytes(blocked::shape_of(sizes).count());
  table.conv_input_grad({s, grad.data, weights, image->data()});
  return blocked::make(sizes, {.bytes = std::move(image)}, backend_of(output_grad));
}

/// Whether outputs see nothing of the last rows or columns of images.
bool leaves_out(const Conv2dSizes& s) {
  return s.pad_bottom < 0 || s.pad_right < 0;
}
/// The same on images without these.
Conv2dSizes of_seen(Conv2dSizes s) {
  s.in_h = std::max<std::int64_t>(0, s.in_h + std::min<std::int64_t>(0, s.pad_bottom));
  s.in_w = std::max<std::int64_t>(0, s.in_w + std::min<std::int64_t>(0, s.pad_right));
  s.pad_bottom = std::max<std::int64_t>(0, s.pad_bottom);
  s.pad_right = std::max<std::int64_t>(0, s.pad_right);
  return s;
}
Tensor seen(const Tensor& images, const Conv2dSizes& s) {
  return images.detach().slice(2, 0, s.in_h).slice(3, 0, s.in_w);
}

Tensor input_grad_of_seen(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& s) {
  Tensor out = kernel::empty_as(output_grad, image_sizes(s), s.order);
  if (!kernel::has_bytes(output_grad)) return out;
  fill_into(out, 0);
  const Conv2dSizes some = of_seen(s);
  if (some.in_h * some.in_w > 0) copy_into(seen(out, some), conv2d_input_grad(output_grad, weight, some));
  return out;
}

}  // namespace

ImageOrder conv2d_order(const Tensor& x, const Tensor& weight) {
  if (x.dtype() == DType::f64) return ImageOrder::channels_first;
  return kernel::order_of(x) == ImageOrder::channels_last ? ImageOrder::channels_last : kernel::order_of(weight);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& s, WeightUse use) {
  if (leaves_out(s)) return conv2d(seen(x, of_seen(s)), weight, bias, of_seen(s), use);
  const bool empty = x.numel() == 0 || weight.numel() == 0;
  if (!empty && on_images(x, s, ConvPass::forward)) return conv2d_of_images(x, weight, bias, s, use);
  if (!empty && use == WeightUse::again && runs_packed(x, s)) {
    return pending_conv2d(x, dense(weight), dense(bias), s, s);
  }
  if (const Conv2dSizes wide = widened(s); !empty && use == WeightUse::again && wide.groups != s.groups) {
    if (on_images(x, wide, ConvPass::forward)) return pending_conv2d(x, dense(weight), dense(bias), s, wide);
  }
  if (!empty && is_product(x, s)) return conv2d_as_product(x, weight, bias, s);
  Tensor out = kernel::empty_as(x, output_sizes(s), s.order);
  if (out.numel() == 0 || !kernel::has_bytes(x)) return out;
  if (empty) return zeroed(out);
  const Tensor in = dense(x, s.order), w = dense(weight, s.order), b = dense(bias);
  std::vector<blocked::Bytes> kept;
  const KeepWeight keep = [&](std::string_view key, std::size_t bytes, const std::function<void(void*)>& make) {
    const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
    kept.push_back(packed_weights::find_or_pack(w, key, floats, make));
    return kept.back()->data();
  };
  const bool may_keep = use == WeightUse::again && w.is_same(weight) && x.device().is_cpu();
  kernel::run("conv2d", x, &NnTable::conv2d,
              Conv2dParams{s, in.raw_data(), w.raw_data(), data_or_null(b), out.mutable_raw_data(),
                           may_keep ? &keep : nullptr});
  return out;
}

Tensor conv2d_input_grad(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& s) {
  if (leaves_out(s)) return input_grad_of_seen(output_grad, weight, s);
  if (s.in_channels != 0 && on_images(output_grad, s, ConvPass::input_grad)) {
    return conv2d_input_grad_of_images(output_grad, weight, s);
  }
  Tensor out = kernel::empty_as(output_grad, image_sizes(s), s.order);
  if (out.numel() == 0 || !kernel::has_bytes(output_grad)) return out;
  if (output_grad.numel() == 0) return zeroed(out);
  const Tensor grad = dense(output_grad, s.order), w = dense(weight, s.order);
  kernel::run("conv2d_backward", output_grad, &NnTable::conv2d_input_grad,
              Conv2dInputGradParams{s, grad.raw_data(), w.raw_data(), out.mutable_raw_data()});
  return out;
}

WeightGrads conv2d_weight_grad(const Tensor& output_grad, const Tensor& x, const Conv2dSizes& s, bool with_bias) {
  if (leaves_out(s)) return conv2d_weight_grad(output_grad, seen(x, of_seen(s)), of_seen(s), with_bias);
  WeightGrads out;
  out.weight = kernel::empty_as(x, {s.out_channels, s.in_channels / s.groups, s.kernel_h, s.kernel_w}, s.order);
  if (with_bias) out.bias = kernel::empty_as(x, {s.out_channels});
  if (out.weight.numel() == 0 || !kernel::has_bytes(x)) return out;
  if (x.numel() == 0 || output_grad.numel() == 0) {
    zeroed(out.weight);
    if (with_bias) zeroed(out.bias);
    return out;
  }
  if (on_images(x, s, ConvPass::weight_grad)) {
    const blocked::Image grad = blocked::image(output_grad), in = blocked::image(x);
    blocked::table_of(x).conv_weight_grad({s, grad.data, in.data, static_cast<float*>(out.weight.mutable_raw_data()),
                                           static_cast<float*>(kernel::output_or_null(out.bias))});
    return out;
  }
  const Tensor grad = dense(output_grad, s.order), in = dense(x, s.order);
  kernel::run("conv2d_backward", x, &NnTable::conv2d_weight_grad,
              Conv2dWeightGradParams{s, grad.raw_data(), in.raw_data(), out.weight.mutable_raw_data(),
                                     kernel::output_or_null(out.bias)});
  return out;
}

}  // namespace core::raw

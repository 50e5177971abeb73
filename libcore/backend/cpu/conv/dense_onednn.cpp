// Convolution of f32, and of bf16 where the processor multiplies it, through oneDNN, on images in ordinary order: they
// are brought into channels-last order on the way in and out, in which oneDNN is fastest by far (285 against 182
// GFLOP/s over the shapes of ResNet-18). It costs nothing for one channel or one pixel. Images in blocked layout:
// blocked.cpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "libcore/backend/cpu/conv/dense.h"
#include "libcore/backend/cpu/conv/image_lanes.h"
#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/conv/planes.h"
#include "libcore/backend/cpu/conv/pointwise.h"
#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/image_order.h"

namespace core::cpu {

using dnnl::memory;

namespace {

/// Calls visit(sizes of some images, bytes of the inputs before them, of the outputs) for all images of a batch. As
/// many at once as stay in a cache when they are brought into another order: through memory that takes longer than a
/// convolution of 1 x 1 does.
template <class Visit>
void for_some_images(const Conv2dSizes& s, std::int64_t element, Visit visit) {
  constexpr std::int64_t kBytes = 2 << 20;
  const std::int64_t input = s.in_channels * s.in_h * s.in_w * element;
  const std::int64_t output = s.out_channels * s.out_h * s.out_w * element;
  const std::int64_t most = std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(1, input + output), 1, s.batch);
  const std::int64_t parts = (s.batch + most - 1) / most;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = s.batch * part / parts;
    Conv2dSizes some = s;
    some.batch = s.batch * (part + 1) / parts - first;
    visit(some, first * input, first * output);
  }
}

const void* behind(const void* data, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
void* behind(void* data, std::int64_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

/// A weight in a layout that a convolution wants, which may be another one for another number of images. Kept for the
/// next call where it may be: in deep layers of few pixels bringing it into order takes a fifth of the time.
template <Element kElement>
class WeightAs {
 public:
  WeightAs(const void* data, const KeepWeight* keep) : data_(data), keep_(keep) {}
  const memory& in(const memory::desc& wanted, const Conv2dSizes& sizes) {
    if (!made_ || made_.get_desc() != wanted) made_ = make(wanted, plain_weight(sizes, kElement));
    return made_;
  }

 private:
  memory make(const memory::desc& wanted, const memory::desc& plain) const {
    if (keep_ == nullptr || lies_as(plain, wanted)) return input_as(wanted, plain, data_, Scratch::weight);
    const std::string_view key(reinterpret_cast<const char*>(&wanted.data), sizeof wanted.data);
    return wrap(wanted, (*keep_)(key, wanted.get_size(), [&](void* to) {
                  reorder(wrap(plain, data_), wrap(wanted, to));
                  dnnl_stream().wait();
                }));
  }

  const void* data_;
  const KeepWeight* keep_;
  memory made_;
};

template <Element kElement>
constexpr std::int64_t kElementBytes = kElement == Element::f32 ? 4 : 2;

template <Element kElement>
void conv2d(const Conv2dParams& p) {
  WeightAs<kElement> weight(p.weight, p.keep);
  for_some_images(p.sizes, kElementBytes<kElement>, [&](const Conv2dSizes& s, std::int64_t in, std::int64_t out) {
    const Convolution& conv = convolution(s, ConvPass::forward, {.has_bias = p.bias != nullptr, .element = kElement});
    const OutputAs output(conv.output, plain_output(s, kElement), behind(p.output, out), Scratch::output);
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, input_as(conv.image, plain_image(s, kElement), behind(p.input, in), Scratch::input)},
        {DNNL_ARG_WEIGHTS, weight.in(conv.weight, s)},
        {DNNL_ARG_DST, output.written()},
        {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
    if (p.bias) arguments.emplace(DNNL_ARG_BIAS, wrap(conv.bias, p.bias));
    conv.primitive.execute(dnnl_stream(), arguments);
    output.finish();
  });
  finish_pass();
}

template <Element kElement>
void conv2d_input_grad(const Conv2dInputGradParams& p) {
  WeightAs<kElement> weight(p.weight, nullptr);
  for_some_images(p.sizes, kElementBytes<kElement>, [&](const Conv2dSizes& s, std::int64_t in, std::int64_t out) {
    const Convolution& conv = convolution(s, ConvPass::input_grad, {.element = kElement});
    const OutputAs image(conv.image, plain_image(s, kElement), behind(p.input_grad, in), Scratch::input);
    conv.primitive.execute(dnnl_stream(), {{DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s, kElement),
                                                                        behind(p.output_grad, out), Scratch::output)},
                                           {DNNL_ARG_WEIGHTS, weight.in(conv.weight, s)},
                                           {DNNL_ARG_DIFF_SRC, image.written()},
                                           {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}});
    image.finish();
  });
  finish_pass();
}

/// Whether an output sees a pixel through this tap of a row or column of the kernel, and not padding alone.
struct Taps {
  std::int64_t outputs, stride, padding, dilation, pixels;
  bool sees(std::int64_t tap) const {
    for (std::int64_t i = 0; i < outputs; ++i) {
      const std::int64_t at = i * stride - padding + tap * dilation;
      if (at >= 0 && at < pixels) return true;
    }
    return false;
  }
};

/// oneDNN's kernels for the gradient of a bf16 weight leave what was in its memory where a tap sees padding alone.
bool all_taps_see_pixels(const Conv2dSizes& s) {
  const Taps rows{s.out_h, s.stride_h, s.pad_top, s.dilation_h, s.in_h};
  const Taps columns{s.out_w, s.stride_w, s.pad_left, s.dilation_w, s.in_w};
  for (std::int64_t tap = 0; tap < s.kernel_h; ++tap) {
    if (!rows.sees(tap)) return false;
  }
  for (std::int64_t tap = 0; tap < s.kernel_w; ++tap) {
    if (!columns.sees(tap)) return false;
  }
  return true;
}

template <Element kElement>
void conv2d_weight_grad(const Conv2dWeightGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv =
      convolution(s, ConvPass::weight_grad, {.has_bias = p.bias_grad != nullptr, .element = kElement});
  const OutputAs weight(conv.weight, plain_weight(s, kElement), p.weight_grad, Scratch::weight);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s, kElement), p.output_grad, Scratch::output)},
      {DNNL_ARG_SRC, input_as(conv.image, plain_image(s, kElement), p.input, Scratch::input)},
      {DNNL_ARG_DIFF_WEIGHTS, weight.written()},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias_grad) arguments.emplace(DNNL_ARG_DIFF_BIAS, wrap(conv.bias, p.bias_grad));
  conv.primitive.execute(dnnl_stream(), arguments);
  weight.finish();
  finish_pass();
}

/// Whether a convolution sees some of the pixels of its images and nothing of the others.
bool takes_some_pixels(const Conv2dSizes& s) {
  const bool none_outside = s.pad_top + s.pad_left + s.pad_bottom + s.pad_right == 0;
  return s.kernel_h * s.kernel_w == 1 && s.stride_h * s.stride_w > 1 && none_outside;
}
/// The same on images that hold these pixels alone.
Conv2dSizes of_those(Conv2dSizes s) {
  s.in_h = s.out_h, s.in_w = s.out_w;
  s.stride_h = s.stride_w = 1;
  return s;
}
/// Calls visit(a pixel's place in the images, its place among those alone, pixels of a row of these).
template <class Visit>
void for_each_row(const Conv2dSizes& s, Visit visit) {
  constexpr std::int64_t kGrain = 8192;  // pixels
  const std::int64_t rows = s.batch * s.in_channels * s.out_h;
  parallel_for(rows, 1 + kGrain / s.out_w, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      visit((row / s.out_h * s.in_h + row % s.out_h * s.stride_h) * s.in_w, row * s.out_w);
    }
  });
}

using Word = std::uint16_t;  // of 16 bits

/// The pixels that such a convolution sees.
class SomePixels {
 public:
  SomePixels(const Conv2dSizes& s, const void* images) : memory_(count(s)) {
    const auto* from = static_cast<const Word*>(images);
    for_each_row(s, [&](std::int64_t there, std::int64_t here) {
      for (std::int64_t i = 0; i < s.out_w; ++i) data()[here + i] = from[there + i * s.stride_w];
    });
  }
  explicit SomePixels(const Conv2dSizes& s) : memory_(count(s)) {}
  /// Into images whose other pixels are 0.
  void spread(const Conv2dSizes& s, void* images) const {
    auto* to = static_cast<Word*>(images);
    std::fill_n(to, s.batch * s.in_channels * s.in_h * s.in_w, Word{0});
    for_each_row(s, [&](std::int64_t there, std::int64_t here) {
      for (std::int64_t i = 0; i < s.out_w; ++i) to[there + i * s.stride_w] = data()[here + i];
    });
  }
  Word* data() const { return reinterpret_cast<Word*>(memory_.data()); }

 private:
  static std::int64_t count(const Conv2dSizes& s) {  // of floats
    return (s.batch * s.in_channels * s.out_h * s.out_w + 1) / 2;
  }
  CallMemory memory_;
};

void conv2d_by_bf16(const Conv2dParams& p) {
  if (is_by_planes(p.sizes)) return conv2d_bf16(p);
  if (!takes_some_pixels(p.sizes)) return conv2d<Element::bf16>(p);
  const SomePixels pixels(p.sizes, p.input);
  Conv2dParams some = p;
  some.sizes = of_those(p.sizes), some.input = pixels.data();
  conv2d<Element::bf16>(some);
}
/// oneDNN 2's kernel for the gradient of the input of 1 x 1 leaves products out where an odd number of channels meets
/// some numbers of pixels (30, 59, 60, 89 ...).
bool leaves_products_out(const Conv2dSizes& s) {
  return s.kernel_h * s.kernel_w == 1 && s.out_channels / s.groups % 2 == 1;
}
void conv2d_input_grad_by_bf16(const Conv2dInputGradParams& p) {
  if (is_by_planes(p.sizes) || leaves_products_out(p.sizes)) return conv2d_input_grad_bf16(p);
  if (!takes_some_pixels(p.sizes)) return conv2d_input_grad<Element::bf16>(p);
  const SomePixels pixels(p.sizes);
  conv2d_input_grad<Element::bf16>({of_those(p.sizes), p.output_grad, p.weight, pixels.data()});
  pixels.spread(p.sizes, p.input_grad);
}
/// oneDNN 2's kernel for the gradient of the weight gives something else where taps see rows that lie apart for outputs
/// whose rows do not, and are longer than 28.
bool mistakes_rows(const Conv2dSizes& s) {
  return s.dilation_h > 1 && (s.stride_h == 1 || takes_some_pixels(s)) && s.out_w > 28;
}
void conv2d_weight_grad_by_bf16(const Conv2dWeightGradParams& p) {
  const bool is_wide = is_by_planes(p.sizes) || !all_taps_see_pixels(p.sizes) || mistakes_rows(p.sizes);
  if (is_wide) return conv2d_weight_grad_bf16(p);
  if (!takes_some_pixels(p.sizes)) return conv2d_weight_grad<Element::bf16>(p);
  const SomePixels pixels(p.sizes, p.input);
  conv2d_weight_grad<Element::bf16>({of_those(p.sizes), p.output_grad, pixels.data(), p.weight_grad, p.bias_grad});
}

/// Where an image in each lane is the fastest way, but forward into whole blocks of channels, which oneDNN does as
/// fast: with few channels of the input most lanes of its kernels for gradients are empty.
bool is_by_image_lanes(const Conv2dSizes& s) {
  constexpr std::int64_t kImages = 16, kMostChannels = 8, kMostOutputs = 64;
  constexpr std::int64_t kMostNumbers = 16384;  // of an image: 1 MiB of sixteen
  const std::int64_t numbers = s.in_channels * s.in_h * s.in_w + s.out_channels * s.out_h * s.out_w;
  return isa() == Isa::avx512 && s.batch % kImages == 0 && s.groups == 1 && s.kernel_h * s.kernel_w > 1 &&
         s.stride_h * s.stride_w * s.dilation_h * s.dilation_w == 1 && s.in_channels <= kMostChannels &&
         s.out_channels <= kMostOutputs && numbers <= kMostNumbers;
}

struct ConvKernels {
  void (*forward)(const Conv2dParams&);
  void (*input_grad)(const Conv2dInputGradParams&);
  void (*weight_grad)(const Conv2dWeightGradParams&);
};

void set(NnTable& table, DType dtype, const ConvKernels& kernels) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.conv2d[slot] = kernels.forward;
  table.conv2d_input_grad[slot] = kernels.input_grad;
  table.conv2d_weight_grad[slot] = kernels.weight_grad;
}

}  // namespace

void conv2d_f32(const Conv2dParams& p) {
#if defined(__x86_64__)
  if (is_by_image_lanes(p.sizes) && is_by_planes(p.sizes)) return avx512::lanes_conv(p);
#endif
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_conv)(DType::f32, p);
  if (is_pointwise(p.sizes)) return pointwise_conv(p);
  conv2d<Element::f32>(p);
}
void conv2d_input_grad_f32(const Conv2dInputGradParams& p) {
#if defined(__x86_64__)
  if (is_by_image_lanes(p.sizes)) return avx512::lanes_input_grad(p);
#endif
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_input_grad)(DType::f32, p);
  if (is_pointwise(p.sizes)) return pointwise_input_grad(p);
  conv2d_input_grad<Element::f32>(p);
}
void conv2d_weight_grad_f32(const Conv2dWeightGradParams& p) {
#if defined(__x86_64__)
  if (is_by_image_lanes(p.sizes)) return avx512::lanes_weight_grad(p);
#endif
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_weight_grad)(DType::f32, p);
  if (is_pointwise(p.sizes)) return pointwise_weight_grad(p);
  conv2d_weight_grad<Element::f32>(p);
}

void fill_dense_convolutions(NnTable& table) {
  set(table, DType::f32, {conv2d_f32, conv2d_input_grad_f32, conv2d_weight_grad_f32});
  set(table, DType::f64, {conv2d_f64, conv2d_input_grad_f64, conv2d_weight_grad_f64});
  set(table, DType::f16, {conv2d_f16, conv2d_input_grad_f16, conv2d_weight_grad_f16});
  set(table, DType::bf16,
      dnnl_takes_bf16() ? ConvKernels{conv2d_by_bf16, conv2d_input_grad_by_bf16, conv2d_weight_grad_by_bf16}
                        : ConvKernels{conv2d_bf16, conv2d_input_grad_bf16, conv2d_weight_grad_bf16});
}

}  // namespace core::cpu

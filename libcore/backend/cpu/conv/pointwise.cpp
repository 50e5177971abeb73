#include "libcore/backend/cpu/conv/pointwise.h"

#include <algorithm>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/op_params.h"

namespace core::cpu {
namespace {

std::int64_t out_pixels(const Conv2dSizes& s) {
  return s.out_h * s.out_w;
}
std::int64_t in_pixels(const Conv2dSizes& s) {
  return s.in_h * s.in_w;
}
bool sees_all(const Conv2dSizes& s) {
  return s.stride_h == 1 && s.stride_w == 1;
}
const float* image_of(const void* images, std::int64_t number, std::int64_t size) {
  return static_cast<const float*>(images) + number * size;
}
float* image_of(void* images, std::int64_t number, std::int64_t size) {
  return static_cast<float*>(images) + number * size;
}

/// Calls visit(the first pixel seen of a row of the image, where it stands among those seen) for all rows.
template <class Visit>
void for_each_row_seen(const Conv2dSizes& s, Visit visit) {
  constexpr std::int64_t kGrain = 8192;  // pixels
  parallel_for(s.in_channels * s.out_h, 1 + kGrain / s.out_w, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      visit((row / s.out_h * s.in_h + row % s.out_h * s.stride_h) * s.in_w, row * s.out_w);
    }
  });
}

/// The pixels of an image that are seen: (channels, pixels).
const float* seen_of(const Conv2dSizes& s, const float* image) {
  if (sees_all(s)) return image;
  float* seen = scratch<float>(Scratch::input, s.in_channels * out_pixels(s));
  for_each_row_seen(s, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t x = 0; x < s.out_w; ++x) seen[to + x] = image[from + x * s.stride_w];
  });
  return seen;
}

/// The other way: pixels that are not seen are 0.
void spread(const Conv2dSizes& s, const float* seen, float* image) {
  std::fill_n(image, s.in_channels * in_pixels(s), 0.0F);
  for_each_row_seen(s, [&](std::int64_t to, std::int64_t from) {
    for (std::int64_t x = 0; x < s.out_w; ++x) image[to + x * s.stride_w] = seen[from + x];
  });
}

/// The sum of each channel over all images, in double past single rows of lanes.
void sum_channels(const Conv2dSizes& s, const void* output_grad, float* sums) {
  constexpr std::int64_t kLanes = 16;
  const std::int64_t plane = out_pixels(s);
  parallel_for(s.out_channels, 1 + 32768 / (plane * s.batch), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double sum = 0;
      for (std::int64_t n = 0; n < s.batch; ++n) {
        const float* from = image_of(output_grad, n * s.out_channels + c, plane);
        float lanes[kLanes] = {};
        std::int64_t i = 0;
        for (; i + kLanes <= plane; i += kLanes) {
          for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += from[i + lane];
        }
        for (; i < plane; ++i) lanes[0] += from[i];
        for (const float lane : lanes) sum += static_cast<double>(lane);
      }
      sums[c] = static_cast<float>(sum);
    }
  });
}

}  // namespace

void pointwise_conv(const Conv2dParams& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t in = s.in_channels, out = s.out_channels, pixels = out_pixels(s);
  const auto* bias = static_cast<const float*>(p.bias);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    float* to = image_of(p.output, n, out * pixels);
    for (std::int64_t c = 0; bias != nullptr && c < out; ++c) std::fill_n(to + c * pixels, pixels, bias[c]);
    gemm_f32({.transpose_a = false,
              .transpose_b = false,
              .m = out,
              .n = pixels,
              .k = in,
              .lda = in,
              .ldb = pixels,
              .ldc = pixels,
              .a = p.weight,
              .b = seen_of(s, image_of(p.input, n, in * in_pixels(s))),
              .c = to,
              .alpha = 1,
              .beta = bias != nullptr ? 1.0 : 0.0,
              .batch = 1,
              .batch_stride_a = 0,
              .batch_stride_b = 0,
              .batch_stride_c = 0});
  }
  trim_scratch();
}

void pointwise_input_grad(const Conv2dInputGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t in = s.in_channels, out = s.out_channels, pixels = out_pixels(s);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    float* image = image_of(p.input_grad, n, in * in_pixels(s));
    float* to = sees_all(s) ? image : scratch<float>(Scratch::input, in * pixels);
    gemm_f32({.transpose_a = true,
              .transpose_b = false,
              .m = in,
              .n = pixels,
              .k = out,
              .lda = in,
              .ldb = pixels,
              .ldc = pixels,
              .a = p.weight,
              .b = image_of(p.output_grad, n, out * pixels),
              .c = to,
              .alpha = 1,
              .beta = 0,
              .batch = 1,
              .batch_stride_a = 0,
              .batch_stride_b = 0,
              .batch_stride_c = 0});
    if (to != image) spread(s, to, image);
  }
  trim_scratch();
}

void pointwise_weight_grad(const Conv2dWeightGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t in = s.in_channels, out = s.out_channels, pixels = out_pixels(s);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    gemm_f32({.transpose_a = false,
              .transpose_b = true,
              .m = out,
              .n = in,
              .k = pixels,
              .lda = pixels,
              .ldb = pixels,
              .ldc = in,
              .a = image_of(p.output_grad, n, out * pixels),
              .b = seen_of(s, image_of(p.input, n, in * in_pixels(s))),
              .c = p.weight_grad,
              .alpha = 1,
              .beta = n == 0 ? 0.0 : 1.0,
              .batch = 1,
              .batch_stride_a = 0,
              .batch_stride_b = 0,
              .batch_stride_c = 0});
  }
  if (p.bias_grad != nullptr) sum_channels(s, p.output_grad, static_cast<float*>(p.bias_grad));
  trim_scratch();
}

}  // namespace core::cpu

#include "libcore/backend/cpu/conv/im2col.h"

#include <dnnl.h>

#include <algorithm>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/base/error.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kLanes = 16;

std::int64_t pixels(const Conv2dSizes& s) {
  return s.batch * s.out_h * s.out_w;
}
std::int64_t taps(const Conv2dSizes& s) {
  return s.kernel_h * s.kernel_w;
}
/// Elements of one filter: (in_channels, kernel_h, kernel_w).
std::int64_t filter(const Conv2dSizes& s) {
  return s.in_channels * taps(s);
}

struct Product {
  char transpose_a, transpose_b;
  std::int64_t m, n, k;
  const float* a;
  std::int64_t lda;
  const float* b;
  std::int64_t ldb;
  float* c;
};

/// c (m, n) = a (m, k) @ b (k, n).
void multiply(const Product& p) {
  apply_thread_limit();
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1, p.a, p.lda, p.b, p.ldb, 0, p.c, p.n);
  if (status != dnnl_success) throw Error(ErrorCode::internal, "convolution: oneDNN refused the sizes of a product");
}

/// Calls visit(tap, the first lane of the pixel under it in a block, or null outside the image).
template <class Pointer, class Visit>
void for_each_tap(const Conv2dSizes& s, std::int64_t pixel, Pointer block, Visit visit) {
  const std::int64_t y = pixel / s.out_w * s.stride_h - s.pad_top, x = pixel % s.out_w * s.stride_w - s.pad_left;
  for (std::int64_t tap = 0; tap < taps(s); ++tap) {
    const std::int64_t h = y + tap / s.kernel_w * s.dilation_h, w = x + tap % s.kernel_w * s.dilation_w;
    const bool inside = h >= 0 && h < s.in_h && w >= 0 && w < s.in_w;
    visit(tap, inside ? block + (h * s.in_w + w) * kLanes : nullptr);
  }
}

/// What every output pixel sees: (pixels, filter).
float* patches(const Conv2dSizes& s, const float* image) {
  float* out = scratch<float>(Scratch::input, pixels(s) * filter(s));
  const std::int64_t groups = s.in_channels / kLanes, count = taps(s);
  parallel_for(pixels(s), std::max<std::int64_t>(1, 16384 / filter(s)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t n = p / (s.out_h * s.out_w), pixel = p % (s.out_h * s.out_w);
      for (std::int64_t g = 0; g < groups; ++g) {
        const float* block = image + (n * groups + g) * s.in_h * s.in_w * kLanes;
        float* to = out + p * filter(s) + g * kLanes * count;
        for_each_tap(s, pixel, block, [&](std::int64_t tap, const float* from) {
          for (std::int64_t c = 0; c < kLanes; ++c) to[c * count + tap] = from != nullptr ? from[c] : 0.0F;
        });
      }
    }
  });
  return out;
}

/// The transpose of patches(): every pixel of the image gets the sum of what its places got.
void add_patches(const Conv2dSizes& s, const float* patch_grads, float* image) {
  const std::int64_t groups = s.in_channels / kLanes, count = taps(s), plane = s.in_h * s.in_w * kLanes;
  const std::int64_t out_plane = s.out_h * s.out_w;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (out_plane * count * kLanes));
  parallel_for(s.batch * groups, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t n = block / groups, g = block % groups;
      std::fill_n(image + block * plane, plane, 0.0F);
      for (std::int64_t pixel = 0; pixel < out_plane; ++pixel) {
        const float* from = patch_grads + (n * out_plane + pixel) * filter(s) + g * kLanes * count;
        for_each_tap(s, pixel, image + block * plane, [&](std::int64_t tap, float* to) {
          for (std::int64_t c = 0; to != nullptr && c < kLanes; ++c) to[c] += from[c * count + tap];
        });
      }
    }
  });
}

/// (pixels, out_channels) as an output in blocks.
void put_rows(const Conv2dSizes& s, const float* rows, float* output) {
  const std::int64_t groups = s.out_channels / kLanes, plane = s.out_h * s.out_w;
  for (std::int64_t block = 0; block < s.batch * groups; ++block) {
    const float* from = rows + block / groups * plane * s.out_channels + block % groups * kLanes;
    for (std::int64_t pixel = 0; pixel < plane; ++pixel) {
      std::copy_n(from + pixel * s.out_channels, kLanes, output + (block * plane + pixel) * kLanes);
    }
  }
}

/// Of few pixels, by a product that reads the weight where it lies: 0.75 of the library's time for 512 to 512 channels
/// at 16 pixels. False where that does not pay.
bool few_pixels_conv(const ImageConv& p, const float* seen, float* rows) {
  constexpr std::int64_t kMostPixels = 48;
  const Conv2dSizes& s = p.sizes;
  GemmParams product{false,     true,      pixels(s), s.out_channels,
                     filter(s), filter(s), filter(s), s.out_channels,
                     seen,      p.weight,  rows,      1,
                     0,         1,         0,         0,
                     0};
  product.bias = p.bias;
  if (pixels(s) > kMostPixels || !wide_rows_product({product, seen, p.weight, rows, 0})) return false;
  put_rows(s, rows, p.output);
  return true;
}

/// An output in blocks as (pixels, out_channels).
float* as_rows(const Conv2dSizes& s, const float* output) {
  float* out = scratch<float>(Scratch::output, pixels(s) * s.out_channels);
  const std::int64_t groups = s.out_channels / kLanes, plane = s.out_h * s.out_w;
  for (std::int64_t block = 0; block < s.batch * groups; ++block) {
    const std::int64_t n = block / groups, g = block % groups;
    for (std::int64_t pixel = 0; pixel < plane; ++pixel) {
      std::copy_n(output + (block * plane + pixel) * kLanes, kLanes,
                  out + (n * plane + pixel) * s.out_channels + g * kLanes);
    }
  }
  return out;
}

}  // namespace

bool is_for_gemm(const Conv2dSizes& s) {
  // In training the weights change at every step, and bringing them into oneDNN's order cost a third of a residual
  // network's step in its deep layers, which have few pixels to share that among.
  constexpr std::int64_t kMostPixels = 128, kFewestWeights = 65536;
  return s.groups == 1 && s.in_channels % kLanes == 0 && s.out_channels % kLanes == 0 && pixels(s) <= kMostPixels &&
         s.out_channels * filter(s) >= kFewestWeights;
}

void gemm_conv(const ImageConv& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t count = pixels(s), plane = s.out_h * s.out_w, groups = s.out_channels / kLanes;
  const float* seen = patches(s, p.image);
  float* rows = scratch<float>(Scratch::output, count * s.out_channels);  // (out_channels, pixels), or turned
  if (few_pixels_conv(p, seen, rows)) return trim_scratch();
  multiply({'N', 'T', s.out_channels, count, filter(s), p.weight, filter(s), seen, filter(s), rows});
  for (std::int64_t block = 0; block < s.batch * groups; ++block) {
    const std::int64_t n = block / groups, channel = block % groups * kLanes;
    for (std::int64_t pixel = 0; pixel < plane; ++pixel) {
      float* out = p.output + (block * plane + pixel) * kLanes;
      const float* in = rows + channel * count + n * plane + pixel;
      for (std::int64_t c = 0; c < kLanes; ++c)
        out[c] = in[c * count] + (p.bias != nullptr ? p.bias[channel + c] : 0.0F);
    }
  }
  trim_scratch();
}

void gemm_conv_input_grad(const ImageConvInputGrad& p) {
  const Conv2dSizes& s = p.sizes;
  const float* rows = as_rows(s, p.output_grad);
  float* patch_grads = scratch<float>(Scratch::input, pixels(s) * filter(s));
  multiply({'N', 'N', pixels(s), filter(s), s.out_channels, rows, s.out_channels, p.weight, filter(s), patch_grads});
  add_patches(s, patch_grads, p.image_grad);
  trim_scratch();
}

void gemm_conv_weight_grad(const ImageConvWeightGrad& p) {
  const Conv2dSizes& s = p.sizes;
  const float* rows = as_rows(s, p.output_grad);
  const float* seen = patches(s, p.image);
  multiply({'T', 'N', s.out_channels, filter(s), pixels(s), rows, s.out_channels, seen, filter(s), p.weight_grad});
  for (std::int64_t c = 0; p.bias_grad != nullptr && c < s.out_channels; ++c) {
    float sum = 0;
    for (std::int64_t pixel = 0; pixel < pixels(s); ++pixel) sum += rows[pixel * s.out_channels + c];
    p.bias_grad[c] = sum;
  }
  trim_scratch();
}

}  // namespace core::cpu

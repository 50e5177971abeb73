// Pooling of channels-last images: all channels of a pixel at once.
#include <algorithm>
#include <limits>

#include "libcore/backend/cpu/nn_image.h"
#include "libcore/backend/cpu/simd_run.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

/// The windows of one output row over one image.
struct PoolRow {
  const Pool2dSizes& s;
  std::int64_t channels;
  std::int64_t y;

  /// visit(offset of the tap's pixel in the image, in elements; number of the tap) for the taps inside the image.
  template <class Visit>
  [[gnu::always_inline]] void taps(std::int64_t x, Visit visit) const {
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      const std::int64_t h = y * s.stride_h - s.pad_h + kh * s.dilation_h;
      if (h < 0 || h >= s.in_h) continue;
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const std::int64_t w = x * s.stride_w - s.pad_w + kw * s.dilation_w;
        if (w < 0 || w >= s.in_w) continue;
        visit((h * s.in_w + w) * channels, static_cast<std::uint8_t>(kh * s.kernel_w + kw));
      }
    }
  }
};

constexpr std::int64_t kBlock = 64;  // channels taken together: values and taps stay in registers

/// The largest of one window, for the channels [first, first + count).
[[gnu::always_inline]] inline void pool_window(const PoolRow& row, std::int64_t x, const float* in, float* out,
                                               std::int64_t count) {
  float best[kBlock];
  std::fill_n(best, kBlock, -std::numeric_limits<float>::infinity());
  row.taps(x, [&](std::int64_t at, std::uint8_t) CORE_INLINE_BODY {
    const float* values = in + at;
    if (count == kBlock) {
      for (std::int64_t c = 0; c < kBlock; ++c)
        best[c] = (values[c] > best[c]) | (values[c] != values[c]) ? values[c] : best[c];
    } else {
      for (std::int64_t c = 0; c < count; ++c)
        best[c] = (values[c] > best[c]) | (values[c] != values[c]) ? values[c] : best[c];
    }
  });
  std::copy_n(best, count, out);
}

[[gnu::always_inline]] inline void pool_window_with_taps(const PoolRow& row, std::int64_t x, const float* in,
                                                         float* out, std::uint8_t* taps, std::int64_t count) {
  float best[kBlock];
  std::int32_t where[kBlock];
  bool first = true;
  row.taps(x, [&](std::int64_t at, std::uint8_t tap) CORE_INLINE_BODY {
    const float* values = in + at;
    if (first) {
      std::fill_n(where, kBlock, static_cast<std::int32_t>(tap));
      std::fill_n(best, kBlock, -std::numeric_limits<float>::infinity());
      first = false;
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const bool take = (values[c] > best[c]) | (values[c] != values[c]);
      best[c] = take ? values[c] : best[c];
      where[c] = take ? tap : where[c];
    }
  });
  std::copy_n(best, count, out);
  for (std::int64_t c = 0; c < count; ++c) taps[c] = static_cast<std::uint8_t>(where[c]);
}

void pool_row(const ImageMaxPool& p, std::int64_t image, std::int64_t y) {
  const Pool2dSizes& s = p.sizes;
  const PoolRow row{s, p.channels, y};
  const float* in = p.in + image * s.in_h * s.in_w * p.channels;
  const std::int64_t at = (image * s.out_h + y) * s.out_w * p.channels;
  run_wide([&]() CORE_INLINE_BODY {
    for (std::int64_t x = 0; x < s.out_w; ++x) {
      for (std::int64_t first = 0; first < p.channels; first += kBlock) {
        const std::int64_t count = std::min(kBlock, p.channels - first), to = at + x * p.channels + first;
        if (p.taps != nullptr) {
          pool_window_with_taps(row, x, in + first, p.out + to, p.taps + to, count);
        } else {
          pool_window(row, x, in + first, p.out + to, count);
        }
      }
    }
  });
}

/// Adds the gradients of one output row to the image's.
void spread_row(const ImageMaxPoolGrad& p, std::int64_t image, std::int64_t y) {
  const Pool2dSizes& s = p.sizes;
  const PoolRow row{s, p.channels, y};
  float* to = p.input_grad + image * s.in_h * s.in_w * p.channels;
  const std::int64_t at = (image * s.out_h + y) * s.out_w * p.channels;
  run_wide([&]() CORE_INLINE_BODY {
    for (std::int64_t x = 0; x < s.out_w; ++x) {
      const float* grad = p.output_grad + at + x * p.channels;
      const std::uint8_t* taps = p.taps + at + x * p.channels;
      row.taps(x, [&](std::int64_t pixel, std::uint8_t tap) CORE_INLINE_BODY {
        float* __restrict out = to + pixel;
        for (std::int64_t c = 0; c < p.channels; ++c) out[c] += taps[c] == tap ? grad[c] : 0.0F;
      });
    }
  });
}

}  // namespace

void image_max_pool(const ImageMaxPool& p) {
  const std::int64_t rows = p.sizes.planes * p.sizes.out_h;
  const std::int64_t work = p.sizes.out_w * p.channels * p.sizes.kernel_h * p.sizes.kernel_w;
  parallel_for(rows, std::max<std::int64_t>(1, 32768 / work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) pool_row(p, r / p.sizes.out_h, r % p.sizes.out_h);
  });
}

void image_max_pool_grad(const ImageMaxPoolGrad& p) {
  const std::int64_t size = p.sizes.in_h * p.sizes.in_w * p.channels;
  parallel_for(p.sizes.planes, std::max<std::int64_t>(1, 32768 / size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = begin; image < end; ++image) {
      std::fill_n(p.input_grad + image * size, size, 0.0F);
      for (std::int64_t y = 0; y < p.sizes.out_h; ++y) spread_row(p, image, y);
    }
  });
}

}  // namespace core::cpu

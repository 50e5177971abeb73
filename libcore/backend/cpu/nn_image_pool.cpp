// Pooling of channels-last images: all channels of a pixel at once.
#include <algorithm>
#include <limits>

#include "libcore/backend/cpu/nn_image.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector16.h"

namespace core::cpu::CORE_CPU_VARIANT {
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
        visit((h * s.in_w + w) * channels, static_cast<std::int32_t>(kh * s.kernel_w + kw));
      }
    }
  }
};

/// The largest of one window, for `count` channels from those that `in` points to.
template <bool kTaps>
[[gnu::always_inline]] inline void pool_window(const PoolRow& row, std::int64_t x, const float* in, float* out,
                                               std::uint8_t* taps, std::int64_t count) {
  Floats best = Floats{} - std::numeric_limits<float>::infinity();
  Ints where{};
  bool first = true;
  row.taps(x, [&](std::int64_t at, std::int32_t tap) {
    Floats value;
    load_up_to(value, in + at, count);
    const Ints take = (value > best) | (value != value);
    best = take ? value : best;
    if constexpr (kTaps) where = first ? Ints{} + tap : take ? Ints{} + tap : where;
    first = false;
  });
  store_up_to(out, best, count);
  if constexpr (kTaps) {
    const Bytes16 narrow = __builtin_convertvector(where, Bytes16);
    store_up_to(taps, narrow, count);
  }
}

template <bool kTaps>
void pool_row(const ImageMaxPool& p, std::int64_t image, std::int64_t y) {
  const Pool2dSizes s = p.sizes;
  const std::int64_t channels = p.channels, full = channels / kLanes * kLanes;
  const PoolRow row{s, channels, y};
  const float* in = p.in + image * s.in_h * s.in_w * channels;
  const std::int64_t at = (image * s.out_h + y) * s.out_w * channels;
  float* out = p.out + at;
  std::uint8_t* taps = kTaps ? p.taps + at : nullptr;
  for (std::int64_t x = 0; x < s.out_w; ++x) {
    const std::int64_t to = x * channels;
    for (std::int64_t c = 0; c < full; c += kLanes)
      pool_window<kTaps>(row, x, in + c, out + to + c, taps + to + c, kLanes);
    if (full != channels) pool_window<kTaps>(row, x, in + full, out + to + full, taps + to + full, channels - full);
  }
}

/// Adds to the image's gradient where it was the largest in a window.
[[gnu::always_inline]] inline void spread_window(const PoolRow& row, std::int64_t x, const float* grads,
                                                 const std::uint8_t* taps, float* to, std::int64_t count) {
  Floats grad;
  Bytes16 narrow;
  load_up_to(grad, grads, count);
  load_up_to(narrow, taps, count);
  const Ints where = __builtin_convertvector(narrow, Ints);
  row.taps(x, [&](std::int64_t pixel, std::int32_t tap) {
    Floats sum;
    load_up_to(sum, to + pixel, count);
    sum += where == tap ? grad : Floats{};
    store_up_to(to + pixel, sum, count);
  });
}

/// Adds the gradients of one output row to the image's.
void spread_row(const ImageMaxPoolGrad& p, std::int64_t image, std::int64_t y) {
  const Pool2dSizes s = p.sizes;
  const std::int64_t channels = p.channels, full = channels / kLanes * kLanes;
  const PoolRow row{s, channels, y};
  float* to = p.input_grad + image * s.in_h * s.in_w * channels;
  const std::int64_t at = (image * s.out_h + y) * s.out_w * channels;
  for (std::int64_t x = 0; x < s.out_w; ++x) {
    const float* grads = p.output_grad + at + x * channels;
    const std::uint8_t* taps = p.taps + at + x * channels;
    for (std::int64_t c = 0; c < full; c += kLanes) spread_window(row, x, grads + c, taps + c, to + c, kLanes);
    if (full != channels) spread_window(row, x, grads + full, taps + full, to + full, channels - full);
  }
}

void max_pool(const ImageMaxPool& p) {
  const std::int64_t rows = p.sizes.planes * p.sizes.out_h;
  const std::int64_t work = p.sizes.out_w * p.channels * p.sizes.kernel_h * p.sizes.kernel_w;
  parallel_for(rows, std::max<std::int64_t>(1, 32768 / work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t image = r / p.sizes.out_h, y = r % p.sizes.out_h;
      p.taps != nullptr ? pool_row<true>(p, image, y) : pool_row<false>(p, image, y);
    }
  });
}

void max_pool_grad(const ImageMaxPoolGrad& p) {
  const std::int64_t size = p.sizes.in_h * p.sizes.in_w * p.channels;
  parallel_for(p.sizes.planes, std::max<std::int64_t>(1, 32768 / size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = begin; image < end; ++image) {
      std::fill_n(p.input_grad + image * size, size, 0.0F);
      for (std::int64_t y = 0; y < p.sizes.out_h; ++y) spread_row(p, image, y);
    }
  });
}

}  // namespace

void fill_image_pooling(ImageTable& table) {
  table.max_pool = max_pool;
  table.max_pool_grad = max_pool_grad;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

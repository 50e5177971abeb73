// Pooling of images in blocks of channels: sixteen channels at once.
#include <algorithm>
#include <limits>

#include "libcore/backend/cpu/pool/avg_window.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

using Bytes16 = Vector<std::uint8_t, 16>;

/// The windows of one output row over one block.
struct PoolRow {
  const Pool2dSizes& s;
  std::int64_t y;

  /// visit(the tap's pixel's first element in the block, number of the tap) for the taps inside the image.
  template <class Visit>
  [[gnu::always_inline]] void taps(std::int64_t x, Visit visit) const {
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      const std::int64_t h = y * s.stride_h - s.pad_h + kh * s.dilation_h;
      if (h < 0 || h >= s.in_h) continue;
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const std::int64_t w = x * s.stride_w - s.pad_w + kw * s.dilation_w;
        if (w < 0 || w >= s.in_w) continue;
        visit((h * s.in_w + w) * kLanes, static_cast<std::int32_t>(kh * s.kernel_w + kw));
      }
    }
  }
};

/// The largest of each window of one row; `taps` is null where nobody asks which one it was.
template <bool kTaps>
void pool_row(const PoolRow& row, const float* in, float* out, std::uint8_t* taps) {
  for (std::int64_t x = 0; x < row.s.out_w; ++x) {
    Floats best = Floats{} - std::numeric_limits<float>::infinity();
    Ints where{};
    bool first = true;
    row.taps(x, [&](std::int64_t at, std::int32_t tap) {
      Floats value = load<Floats>(in + at);
      const Ints take = (value > best) | (value != value);
      best = take ? value : best;
      if constexpr (kTaps) where = first ? Ints{} + tap : take ? Ints{} + tap : where;
      first = false;
    });
    store(out + x * kLanes, best);
    if constexpr (kTaps) {
      const Bytes16 narrow = __builtin_convertvector(where, Bytes16);
      store(taps + x * kLanes, narrow);
    }
  }
}

/// Windows of 2 x 2 side by side: the loops over taps and what is inside the image would take longer than these do.
bool are_two_by_two(const Pool2dSizes& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 && s.pad_w == 0 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.in_h >= 2 * s.out_h && s.in_w >= 2 * s.out_w;
}

template <bool kTaps>
void pool_two_by_two(const PoolRow& row, const float* in, float* out, std::uint8_t* taps) {
  const std::int64_t width = row.s.in_w * kLanes;
  const float* upper = in + 2 * row.y * width;
  for (std::int64_t x = 0; x < row.s.out_w; ++x, upper += 2 * kLanes) {
    Floats best = load<Floats>(upper);
    Ints where{};
    const auto see = [&](const float* from, std::int32_t tap) __attribute__((always_inline)) {
      const Floats value = load<Floats>(from);
      const Ints take = (value > best) | (value != value);
      best = take ? value : best;
      if constexpr (kTaps) where = take ? Ints{} + tap : where;
    };
    see(upper + kLanes, 1);
    see(upper + width, 2);
    see(upper + width + kLanes, 3);
    store(out + x * kLanes, best);
    if constexpr (kTaps) {
      const Bytes16 narrow = __builtin_convertvector(where, Bytes16);
      store(taps + x * kLanes, narrow);
    }
  }
}

/// Adds the gradients of one row to the block's, where the value was the largest.
void spread_row(const PoolRow& row, const float* grads, const std::uint8_t* taps, float* to) {
  for (std::int64_t x = 0; x < row.s.out_w; ++x) {
    Floats grad = load<Floats>(grads + x * kLanes);
    const Ints where = __builtin_convertvector(load<Bytes16>(taps + x * kLanes), Ints);
    row.taps(x, [&](std::int64_t pixel, std::int32_t tap) {
      Floats sum = load<Floats>(to + pixel);
      sum += where == tap ? grad : Floats{};
      store(to + pixel, sum);
    });
  }
}

std::int64_t grain_for(std::int64_t work) {
  constexpr std::int64_t kWork = 32768;  // taken elements worth a thread's start
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, work));
}

void max_pool(const ImageMaxPool& p) {
  const Pool2dSizes& s = p.sizes;
  const std::int64_t blocks = s.planes / kLanes, size = s.in_h * s.in_w * kLanes, width = s.out_w * kLanes;
  const bool two = are_two_by_two(s);
  const auto pool = p.taps != nullptr ? (two ? pool_two_by_two<true> : pool_row<true>)
                                      : (two ? pool_two_by_two<false> : pool_row<false>);
  parallel_for(blocks * s.out_h, grain_for(width * s.kernel_h * s.kernel_w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::uint8_t* taps = p.taps != nullptr ? p.taps + r * width : nullptr;
      pool({s, r % s.out_h}, p.in + r / s.out_h * size, p.out + r * width, taps);
    }
  });
}

/// Whether windows lie side by side and cover the image: each pixel belongs to one.
bool are_tiles(const Pool2dSizes& s) {
  return s.kernel_h == s.stride_h && s.kernel_w == s.stride_w && s.pad_h == 0 && s.pad_w == 0 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.in_h == s.out_h * s.kernel_h && s.in_w == s.out_w * s.kernel_w;
}

CORE_INLINE Floats relu_grad_of(const Floats& grad, const float* output) {
  return load<Floats>(output) <= 0 ? Floats{} : grad;
}

/// One row of windows that are tiles. relu: of the block, or null.
template <bool kRelu>
void spread_tiles(const PoolRow& row, const float* grads, const std::uint8_t* taps, const float* relu, float* to) {
  for (std::int64_t x = 0; x < row.s.out_w; ++x) {
    const Floats grad = load<Floats>(grads + x * kLanes) + 0.0F;  // as the sum with 0 that others are
    const Ints where = __builtin_convertvector(load<Bytes16>(taps + x * kLanes), Ints);
    row.taps(x, [&](std::int64_t pixel, std::int32_t tap) {
      Floats here = where == tap ? grad : Floats{};
      if constexpr (kRelu) here = relu_grad_of(here, relu + pixel);
      store(to + pixel, here);
    });
  }
}

template <bool kRelu>
void spread_two_by_two(const PoolRow& row, const float* grads, const std::uint8_t* taps, const float* relu, float* to) {
  const std::int64_t width = row.s.in_w * kLanes, first = 2 * row.y * width;
  for (std::int64_t x = 0; x < row.s.out_w; ++x) {
    const Floats grad = load<Floats>(grads + x * kLanes) + 0.0F;
    const Ints where = __builtin_convertvector(load<Bytes16>(taps + x * kLanes), Ints);
    const auto put = [&](std::int64_t pixel, std::int32_t tap) __attribute__((always_inline)) {
      Floats here = where == tap ? grad : Floats{};
      if constexpr (kRelu) here = relu_grad_of(here, relu + pixel);
      store(to + pixel, here);
    };
    const std::int64_t upper = first + 2 * x * kLanes;
    put(upper, 0);
    put(upper + kLanes, 1);
    put(upper + width, 2);
    put(upper + width + kLanes, 3);
  }
}

/// The same of any windows.
void spread_block(const ImageMaxPoolGrad& p, const float* grads, const std::uint8_t* taps, const float* relu,
                  float* to) {
  const Pool2dSizes& s = p.sizes;
  const std::int64_t size = s.in_h * s.in_w * kLanes, width = s.out_w * kLanes;
  std::fill_n(to, size, 0.0F);
  for (std::int64_t y = 0; y < s.out_h; ++y) spread_row({s, y}, grads + y * width, taps + y * width, to);
  for (std::int64_t i = 0; relu != nullptr && i < size; i += kLanes) {
    store(to + i, relu_grad_of(load<Floats>(to + i), relu + i));
  }
}

void max_pool_grad(const ImageMaxPoolGrad& p) {
  const Pool2dSizes& s = p.sizes;
  const std::int64_t blocks = s.planes / kLanes, size = s.in_h * s.in_w * kLanes, width = s.out_w * kLanes;
  const bool two = are_two_by_two(s);
  const auto spread = p.relu != nullptr ? (two ? spread_two_by_two<true> : spread_tiles<true>)
                                        : (two ? spread_two_by_two<false> : spread_tiles<false>);
  parallel_for(blocks, grain_for(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t from = block * s.out_h * width;
      const float* relu = p.relu != nullptr ? p.relu + block * size : nullptr;
      float* to = p.input_grad + block * size;
      if (!are_tiles(s)) {
        spread_block(p, p.output_grad + from, p.taps + from, relu, to);
        continue;
      }
      for (std::int64_t y = 0; y < s.out_h; ++y) {
        spread({s, y}, p.output_grad + from + y * width, p.taps + from + y * width, relu, to);
      }
    }
  });
}

/// The means of one row of windows over one block.
void avg_row(const ImageAvgPool& p, std::int64_t y, const float* in, float* out) {
  for (std::int64_t x = 0; x < p.sizes.out_w; ++x) {
    const AvgWindow w(p, y, x);
    Floats sum{};
    for (std::int64_t h = w.rows.begin; h < w.rows.end; ++h) {
      for (std::int64_t c = w.columns.begin; c < w.columns.end; ++c) {
        Floats value = load<Floats>(in + (h * p.sizes.in_w + c) * kLanes);
        sum += value;
      }
    }
    sum = sum / static_cast<float>(w.divisor);
    store(out + x * kLanes, sum);
  }
}

void avg_pool(const ImageAvgPool& p) {
  const Pool2dSizes& s = p.sizes;
  const std::int64_t blocks = s.planes / kLanes, size = s.in_h * s.in_w * kLanes, width = s.out_w * kLanes;
  parallel_for(blocks * s.out_h, grain_for(width * s.kernel_h * s.kernel_w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      avg_row(p, r % s.out_h, static_cast<const float*>(p.in) + r / s.out_h * size,
              static_cast<float*>(p.out) + r * width);
    }
  });
}

}  // namespace

void fill_blocked_pools(ImageTable& table) {
  table.avg_pool = avg_pool;
  table.max_pool = max_pool;
  table.max_pool_grad = max_pool_grad;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

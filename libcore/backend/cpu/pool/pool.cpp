// Pooling: windows over planes, one plane after another.
#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/pool/avg_window.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

/// Planes a thread takes at least: enough that starting it pays.
std::int64_t plane_grain(std::int64_t work_per_plane) {
  constexpr std::int64_t kWork = 16384;
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, work_per_plane));
}

constexpr std::int64_t kPoolChunk = 64;  // windows taken together

/// The taps of a window that lie inside [0, size): from `begin` up to `end` in steps of the dilation.
Range inside(std::int64_t start, std::int64_t kernel, std::int64_t dilation, std::int64_t size) {
  const std::int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
  return {start + skipped * dilation, std::min(start + kernel * dilation, size)};
}

/// The usual window, 2 x 2 side by side, without borders: some windows of a row. Loops that the compiler can vectorise;
/// a data-dependent branch for every element would cost ten times as much. False when there is a NaN.
template <class T>
bool max_pool_2x2_chunk(const T* __restrict upper, const T* __restrict lower, std::int64_t count, T* __restrict out,
                        std::int32_t* __restrict offsets, std::int32_t in_w) {
  T larger[2 * kPoolChunk];
  std::int32_t row[2 * kPoolChunk];  // 0 or in_w: which row it came from
  int nan = 0;
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const bool below = lower[i] > upper[i];
    larger[i] = below ? lower[i] : upper[i];
    row[i] = below ? in_w : 0;
    nan |= static_cast<int>(lower[i] != lower[i]) | static_cast<int>(upper[i] != upper[i]);
  }
  for (std::int64_t x = 0; x < count; ++x) {
    const T left = larger[2 * x], right = larger[2 * x + 1];
    const std::int32_t left_row = row[2 * x], right_row = row[2 * x + 1];
    // Of equal values the first in reading order counts.
    const bool take_right = (right > left) | ((right == left) & (right_row < left_row));
    out[x] = take_right ? right : left;
    offsets[x] = take_right ? right_row + 1 : left_row;
  }
  return nan == 0;
}

bool is_2x2(const Pool2dSizes& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 && s.pad_w == 0 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.in_w < (std::int64_t{1} << 30) && s.out_h * 2 <= s.in_h &&
         s.out_w * 2 <= s.in_w;
}

template <class T>
void max_pool_window(const Pool2dSizes& s, const T* plane, std::int64_t y, std::int64_t x, T& best,
                     std::int64_t& where) {
  const Range rows = inside(y * s.stride_h - s.pad_h, s.kernel_h, s.dilation_h, s.in_h);
  const Range columns = inside(x * s.stride_w - s.pad_w, s.kernel_w, s.dilation_w, s.in_w);
  where = rows.begin * s.in_w + columns.begin;
  best = -std::numeric_limits<Opmath<T>>::infinity();
  for (std::int64_t h = rows.begin; h < rows.end; h += s.dilation_h) {
    for (std::int64_t w = columns.begin; w < columns.end; w += s.dilation_w) {
      const T value = plane[h * s.in_w + w];
      if (value > best || std::isnan(value)) {
        best = value;
        where = h * s.in_w + w;
      }
    }
  }
}

/// Windows from x_begin to x_end of row y of the output.
template <class T>
void max_pool_windows(const Pool2dSizes& s, const T* plane, std::int64_t y, std::int64_t x_begin, std::int64_t x_end,
                      T* out, std::int64_t* indices) {
  for (std::int64_t x = x_begin; x < x_end; ++x) {
    max_pool_window(s, plane, y, x, out[y * s.out_w + x], indices[y * s.out_w + x]);
  }
}

template <class T>
void max_pool_2x2_row(const Pool2dSizes& s, const T* plane, std::int64_t y, T* out, std::int64_t* indices) {
  std::int32_t offsets[kPoolChunk];
  for (std::int64_t x = 0; x < s.out_w; x += kPoolChunk) {
    const std::int64_t count = std::min(kPoolChunk, s.out_w - x);
    const std::int64_t at = 2 * y * s.in_w + 2 * x;
    const T* upper = plane + at;
    if (!max_pool_2x2_chunk(upper, upper + s.in_w, count, out + y * s.out_w + x, offsets,
                            static_cast<std::int32_t>(s.in_w))) {
      max_pool_windows(s, plane, y, x, x + count, out, indices);
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) indices[y * s.out_w + x + i] = at + 2 * i + offsets[i];
  }
}

template <class T>
void max_pool2d(const MaxPool2dParams& p) {
  const Pool2dSizes& s = p.sizes;
  const std::int64_t in_size = s.in_h * s.in_w, out_size = s.out_h * s.out_w;
  const bool plain = is_2x2(s);
  parallel_for(s.planes, plane_grain(in_size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const T* in = static_cast<const T*>(p.input) + plane * in_size;
      T* out = static_cast<T*>(p.output) + plane * out_size;
      std::int64_t* indices = p.indices + plane * out_size;
      for (std::int64_t y = 0; y < s.out_h; ++y) {
        if (plain) {
          max_pool_2x2_row(s, in, y, out, indices);
        } else {
          max_pool_windows(s, in, y, 0, s.out_w, out, indices);
        }
      }
    }
  });
}

template <class T>
void scatter_picked(const PickParams& p) {
  parallel_for(p.planes, plane_grain(p.size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const T* values = static_cast<const T*>(p.in) + plane * p.picked;
      const std::int64_t* indices = p.indices + plane * p.picked;
      T* out = static_cast<T*>(p.out) + plane * p.size;
      std::fill_n(out, p.size, T(0));
      for (std::int64_t i = 0; i < p.picked; ++i) out[indices[i]] += values[i];
    }
  });
}

template <class T>
void gather_picked(const PickParams& p) {
  parallel_for(p.planes, plane_grain(p.picked), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * p.picked; i < end * p.picked; ++i) {
      static_cast<T*>(p.out)[i] = static_cast<const T*>(p.in)[i / p.picked * p.size + p.indices[i]];
    }
  });
}

/// Calls visit(plane, output position, window) for every window.
template <class Visit>
void for_each_avg_window(const AvgPool2dParams& p, Visit visit) {
  const Pool2dSizes& s = p.sizes;
  parallel_for(s.planes, plane_grain(s.in_h * s.in_w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * s.out_h * s.out_w; at < end * s.out_h * s.out_w; ++at) {
      const std::int64_t position = at % (s.out_h * s.out_w);
      visit(at / (s.out_h * s.out_w), at, AvgWindow(p, position / s.out_w, position % s.out_w));
    }
  });
}

template <class T>
Opmath<T> sum_of(const T* plane, std::int64_t width, Range rows, Range columns) {
  Opmath<T> sum = 0;
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) sum += plane[y * width + x];
  }
  return sum;
}

template <class T>
void add_to(T* plane, std::int64_t width, Range rows, Range columns, T value) {
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) plane[y * width + x] += value;
  }
}

template <class T>
void avg_pool2d(const AvgPool2dParams& p) {
  const std::int64_t in_size = p.sizes.in_h * p.sizes.in_w;
  for_each_avg_window(p, [&](std::int64_t plane, std::int64_t at, const AvgWindow& w) {
    const T* in = static_cast<const T*>(p.in) + plane * in_size;
    static_cast<T*>(p.out)[at] = sum_of(in, p.sizes.in_w, w.rows, w.columns) / static_cast<Opmath<T>>(w.divisor);
  });
}

template <class T>
void avg_pool2d_grad(const AvgPool2dParams& p) {
  const std::int64_t in_size = p.sizes.in_h * p.sizes.in_w;
  std::fill_n(static_cast<T*>(p.out), p.sizes.planes * in_size, T(0));
  for_each_avg_window(p, [&](std::int64_t plane, std::int64_t at, const AvgWindow& w) {
    const T share = rounded<T>(static_cast<const T*>(p.in)[at] / rounded<T>(w.divisor));
    add_to(static_cast<T*>(p.out) + plane * in_size, p.sizes.in_w, w.rows, w.columns, share);
  });
}

Range adaptive_range(std::int64_t i, std::int64_t in, std::int64_t out) {
  return {i * in / out, ((i + 1) * in + out - 1) / out};
}

/// Calls visit(plane, output position, rows, columns) for every window.
template <class Visit>
void for_each_adaptive_window(const AdaptivePool2dParams& p, Visit visit) {
  const std::int64_t out_size = p.out_h * p.out_w;
  parallel_for(p.planes, plane_grain(p.in_h * p.in_w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * out_size; at < end * out_size; ++at) {
      visit(at / out_size, at, adaptive_range(at % out_size / p.out_w, p.in_h, p.out_h),
            adaptive_range(at % p.out_w, p.in_w, p.out_w));
    }
  });
}

template <class T>
T area(Range rows, Range columns) {
  return rounded<T>((rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class T>
void adaptive_avg_pool2d(const AdaptivePool2dParams& p) {
  for_each_adaptive_window(p, [&](std::int64_t plane, std::int64_t at, Range rows, Range columns) {
    const T* in = static_cast<const T*>(p.in) + plane * p.in_h * p.in_w;
    static_cast<T*>(p.out)[at] = sum_of(in, p.in_w, rows, columns) / area<Opmath<T>>(rows, columns);
  });
}

template <class T>
void adaptive_avg_pool2d_grad(const AdaptivePool2dParams& p) {
  std::fill_n(static_cast<T*>(p.out), p.planes * p.in_h * p.in_w, T(0));
  for_each_adaptive_window(p, [&](std::int64_t plane, std::int64_t at, Range rows, Range columns) {
    const T share = static_cast<const T*>(p.in)[at] / area<T>(rows, columns);
    add_to(static_cast<T*>(p.out) + plane * p.in_h * p.in_w, p.in_w, rows, columns, share);
  });
}

template <class T>
void add_for(NnTable& table, DType dtype) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.max_pool2d[slot] = max_pool2d<T>;
  table.scatter_picked[slot] = scatter_picked<T>;
  table.gather_picked[slot] = gather_picked<T>;
  table.avg_pool2d[slot] = avg_pool2d<T>;
  table.avg_pool2d_grad[slot] = avg_pool2d_grad<T>;
  table.adaptive_avg_pool2d[slot] = adaptive_avg_pool2d<T>;
  table.adaptive_avg_pool2d_grad[slot] = adaptive_avg_pool2d_grad<T>;
}

}  // namespace

void fill_pools(NnTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
  add_for<NarrowHalf>(table, DType::f16);
  add_for<NarrowBFloat16>(table, DType::bf16);
}

}  // namespace core::cpu

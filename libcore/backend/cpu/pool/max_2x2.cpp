// The usual pooling, 2 x 2 windows side by side without borders, of planes in ordinary order, and its gradient: as many
// windows at once as a register has floats. (GCC takes shuffles of wider vectors apart, element by element: ten times
// slower.)
#include <algorithm>
#include <limits>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kWindows = kWidth<float>;
using Values = Vector<float>;
using Offsets = Vector<std::int32_t>;

/// 0, step, 2 * step, ...
template <std::size_t... kLane>
constexpr Offsets steps(std::int32_t step, std::index_sequence<kLane...>) {
  return Offsets{static_cast<std::int32_t>(kLane) * step...};
}
constexpr Offsets kEven = steps(2, std::make_index_sequence<kWindows>());

/// The largest so far of each window, and where it is from the window's first element.
struct Largest {
  Values value = Values{} - std::numeric_limits<float>::infinity();
  Offsets offset{};

  [[gnu::always_inline]] void see(const Values& next, std::int32_t at) {
    const Offsets take = (next > value) | (next != next);
    value = take ? next : value;
    offset = take ? Offsets{} + at : offset;
  }
  /// The elements of a row, of which two belong to each window.
  [[gnu::always_inline]] void see_row(const float* row, std::int32_t at) {
    Values first = load(row);
    Values second = load(row + kWindows);
    see(__builtin_shuffle(first, second, kEven), at);
    see(__builtin_shuffle(first, second, kEven + 1), at + 1);
  }
};

/// As many windows; `rows` and the results have room for all.
void pool_windows(const float* upper, const float* lower, std::int64_t first, std::int32_t in_w, float* out,
                  std::int64_t* indices) {
  Largest largest;
  largest.see_row(upper, 0);
  largest.see_row(lower, in_w);
  store(out, largest.value);
  const Offsets where = largest.offset + kEven;
  for (std::int64_t i = 0; i < kWindows; ++i) indices[i] = first + where[i];
}

/// The same of `count` windows, where reading or writing more would leave the arrays.
void pool_some(const float* upper, const float* lower, std::int64_t first, std::int32_t in_w, std::int64_t count,
               float* out, std::int64_t* indices) {
  float rows[4 * kWindows] = {}, values[kWindows];
  std::int64_t found[kWindows];
  std::copy_n(upper, 2 * count, rows);
  std::copy_n(lower, 2 * count, rows + 2 * kWindows);
  pool_windows(rows, rows + 2 * kWindows, first, in_w, values, found);
  std::copy_n(values, count, out);
  std::copy_n(found, count, indices);
}

/// Planes [begin, end). What is written beyond a row belongs to the next one, which is written later.
void pool_planes(const MaxPool2dParams& p, std::int64_t begin, std::int64_t end) {
  const Pool2dSizes& s = p.sizes;
  const auto* in = static_cast<const float*>(p.input);
  auto* out = static_cast<float*>(p.output);
  const std::int64_t in_end = end * s.in_h * s.in_w, out_end = end * s.out_h * s.out_w;
  for (std::int64_t row = begin * s.out_h; row < end * s.out_h; ++row) {
    const std::int64_t plane = row / s.out_h, y = row % s.out_h;
    for (std::int64_t x = 0; x < s.out_w; x += kWindows) {
      const std::int64_t first = 2 * y * s.in_w + 2 * x;
      const std::int64_t from = plane * s.in_h * s.in_w + first, to = row * s.out_w + x;
      const auto width = static_cast<std::int32_t>(s.in_w);
      if (from + s.in_w + 2 * kWindows <= in_end && to + kWindows <= out_end) {
        pool_windows(in + from, in + from + s.in_w, first, width, out + to, p.indices + to);
      } else {
        pool_some(in + from, in + from + s.in_w, first, width, std::min(kWindows, s.out_w - x), out + to,
                  p.indices + to);
      }
    }
  }
}

void max_pool_2x2(const MaxPool2dParams& p) {
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / (p.sizes.in_h * p.sizes.in_w));
  parallel_for(p.sizes.planes, grain, [&](std::int64_t begin, std::int64_t end) { pool_planes(p, begin, end); });
}

/// The gradient where windows cover the planes: both rows of a window are written whole, without zeros before.
using Indices = Vector<std::int64_t, kWindows>;

/// a0 b0 a1 b1 ... of the lower halves (kHalf 0) or the upper ones.
template <std::size_t... kLane>
constexpr Offsets in_turn(std::int32_t half, std::index_sequence<kLane...>) {
  constexpr auto kHalf = static_cast<std::int32_t>(kWindows / 2);
  return Offsets{(half * kHalf + static_cast<std::int32_t>(kLane / 2) + (kLane % 2 != 0 ? 2 * kHalf : 0))...};
}
constexpr Offsets kLower = in_turn(0, std::make_index_sequence<kWindows>());
constexpr Offsets kUpper = in_turn(1, std::make_index_sequence<kWindows>());

[[gnu::always_inline]] inline void put_row(const Values& first, const Values& second, float* row) {
  store(row, __builtin_shuffle(first, second, kLower));
  store(row + kWindows, __builtin_shuffle(first, second, kUpper));
}

/// As many windows; the rows have room for all.
void spread_windows(const float* grads, const std::int64_t* indices, std::int64_t first, std::int32_t in_w,
                    float* upper, float* lower) {
  const Values grad = load(grads) + 0.0F;  // as the sum with 0 that others are
  const Offsets where = __builtin_convertvector(load<Indices>(indices) - first, Offsets) - kEven;
  put_row(where == 0 ? grad : Values{}, where == 1 ? grad : Values{}, upper);
  put_row(where == in_w ? grad : Values{}, where == in_w + 1 ? grad : Values{}, lower);
}

/// The same of `count` windows, where reading or writing more would leave the arrays.
void spread_some(const float* grads, const std::int64_t* indices, std::int64_t first, std::int32_t in_w,
                 std::int64_t count, float* upper, float* lower) {
  float rows[4 * kWindows], values[kWindows] = {};
  std::int64_t found[kWindows] = {};
  std::copy_n(grads, count, values);
  std::copy_n(indices, count, found);
  spread_windows(values, found, first, in_w, rows, rows + 2 * kWindows);
  std::copy_n(rows, 2 * count, upper);
  std::copy_n(rows + 2 * kWindows, 2 * count, lower);
}

/// Planes [begin, end). What is written beyond a row belongs to the next one, which is written later; but for what lies
/// beyond an upper row of several steps, as the lower one has begun by then.
void spread_planes(const PickParams& p, std::int64_t begin, std::int64_t end) {
  const Pool2dSizes& s = p.windows;
  const auto* grads = static_cast<const float*>(p.in);
  auto* out = static_cast<float*>(p.out);
  const auto width = static_cast<std::int32_t>(s.in_w);
  const std::int64_t in_end = end * p.size, out_end = end * p.picked;
  for (std::int64_t row = begin * s.out_h; row < end * s.out_h; ++row) {
    const std::int64_t plane = row / s.out_h, y = row % s.out_h;
    for (std::int64_t x = 0; x < s.out_w; x += kWindows) {
      const std::int64_t first = 2 * y * s.in_w + 2 * x, from = row * s.out_w + x;
      float* upper = out + plane * p.size + first;
      const bool has_room = plane * p.size + first + s.in_w + 2 * kWindows <= in_end && from + kWindows <= out_end;
      if (has_room && (x == 0 || x + kWindows <= s.out_w)) {
        spread_windows(grads + from, p.indices + from, first, width, upper, upper + s.in_w);
      } else {
        spread_some(grads + from, p.indices + from, first, width, std::min(kWindows, s.out_w - x), upper,
                    upper + s.in_w);
      }
    }
  }
}

void (*scatter_others)(const PickParams&) = nullptr;

void scatter_picked(const PickParams& p) {
  const Pool2dSizes& s = p.windows;
  const bool two = s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 &&
                   s.pad_w == 0 && s.dilation_h == 1 && s.dilation_w == 1 && s.inner == 1;
  const bool covers = two && s.in_h == 2 * s.out_h && s.in_w == 2 * s.out_w && s.in_w < (std::int64_t{1} << 30) &&
                      p.size == s.in_h * s.in_w && p.picked == s.out_h * s.out_w;
  if (!covers) return scatter_others(p);
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / p.size);
  parallel_for(p.planes, grain, [&](std::int64_t begin, std::int64_t end) { spread_planes(p, begin, end); });
}

}  // namespace

void fill_max_2x2(NnTable& table) {
  constexpr auto kFloat = static_cast<std::size_t>(DType::f32);
  table.max_pool2d_2x2[kFloat] = max_pool_2x2;
  scatter_others = table.scatter_picked[kFloat];
  table.scatter_picked[kFloat] = scatter_picked;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

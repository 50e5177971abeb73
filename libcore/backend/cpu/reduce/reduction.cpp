// Reductions. Sums are taken in blocks of T lanes and added up in double; a full reduction is cut into pieces of fixed
// size, so that its result does not depend on the number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kPiece = 65536;  // elements of one piece of a full reduction
constexpr int kLanes = 16;
constexpr std::int64_t kBlock = 64 * kLanes;  // summed in the elements' type, before it is added to the wider total

template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

/// map(in[0]) + ... with `kLanes` partial sums per block.
template <class T, class Map>
Accumulator<T> sum_row(const T* in, std::int64_t n, std::int64_t stride, Map map) {
  Accumulator<T> total = 0;
  std::int64_t i = 0;
  if (stride == 1) {
    while (n - i >= kLanes) {
      T lanes[kLanes] = {};
      std::int64_t end = i + std::min(kBlock, (n - i) / kLanes * kLanes);
      for (; i < end; i += kLanes) {
        for (int k = 0; k < kLanes; ++k) lanes[k] = static_cast<T>(lanes[k] + map(in[i + k]));
      }
      for (T lane : lanes) total += static_cast<Accumulator<T>>(lane);
    }
  }
  for (; i < n; ++i) total += static_cast<Accumulator<T>>(map(in[i * stride]));
  return total;
}

// A reducer has a State, folds rows into it, merges states in order and turns the last one into the output.

template <class T, bool kMean>
struct Sum {
  using Out = T;
  using State = Accumulator<T>;
  explicit Sum(const double*) {}
  State start() const { return 0; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t) const {
    state += sum_row(in, n, stride, [](T x) { return x; });
  }
  void merge(State& state, const State& later) const { state += later; }
  void finish(const State& state, std::int64_t count, Out* out, std::int64_t*) const {
    if constexpr (kMean) {
      *out = static_cast<T>(state / static_cast<double>(count));
    } else {
      *out = static_cast<T>(state);
    }
  }
};

template <class T>
struct Prod {
  using Out = T;
  using State = Accumulator<T>;
  explicit Prod(const double*) {}
  State start() const { return 1; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t) const {
    for (std::int64_t i = 0; i < n; ++i) state *= static_cast<State>(in[i * stride]);
  }
  void merge(State& state, const State& later) const { state *= later; }
  void finish(const State& state, std::int64_t, Out* out, std::int64_t*) const { *out = static_cast<T>(state); }
};

template <class T>
struct Best {
  T value;
  std::int64_t index;  // -1: nothing seen
};

template <class T, bool kMax>
bool better(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return false;
    if (a != a) return true;
  }
  return kMax ? a > b : a < b;
}

/// The first of the best; NaN is best of all.
template <class T, bool kMax, bool kIndexOnly>
struct Extreme {
  using Out = std::conditional_t<kIndexOnly, std::int64_t, T>;
  using State = Best<T>;
  explicit Extreme(const double*) {}
  State start() const { return {T(0), -1}; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t first) const {
    for (std::int64_t i = 0; i < n; ++i) {
      T value = in[i * stride];
      if (state.index < 0 || better<T, kMax>(value, state.value)) state = {value, first + i};
    }
  }
  void merge(State& state, const State& later) const {
    if (state.index < 0 || (later.index >= 0 && better<T, kMax>(later.value, state.value))) state = later;
  }
  void finish(const State& state, std::int64_t, Out* out, std::int64_t* index) const {
    if constexpr (kIndexOnly) {
      *out = state.index;
    } else {
      *out = state.value;
      if (index != nullptr) *index = state.index;
    }
  }
};

template <class T>
struct Norm {
  using Out = T;
  using State = double;
  double p;
  explicit Norm(const double* args) : p(args[0]) {}
  State start() const { return p == -HUGE_VAL ? HUGE_VAL : 0; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t) const {
    if (p == 2) {
      for (std::int64_t i = 0; i < n; ++i)
        state += static_cast<double>(in[i * stride]) * static_cast<double>(in[i * stride]);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) merge(state, term(static_cast<double>(in[i * stride])));
  }
  double term(double x) const {
    if (p == 0) return x != 0 ? 1 : 0;
    if (p == 1 || std::isinf(p)) return std::abs(x);
    return std::pow(std::abs(x), p);
  }
  void merge(State& state, const State& later) const {
    if (p == HUGE_VAL) {
      state = later != later || later > state ? later : state;
    } else if (p == -HUGE_VAL) {
      state = later != later || later < state ? later : state;
    } else {
      state += later;
    }
  }
  void finish(const State& state, std::int64_t, Out* out, std::int64_t*) const {
    bool plain = p == 0 || p == 1 || std::isinf(p);
    *out = static_cast<T>(plain ? state : p == 2 ? std::sqrt(state) : std::pow(state, 1 / p));
  }
};

template <class T, bool kAll>
struct Truth {
  using Out = bool;
  using State = bool;
  explicit Truth(const double*) {}
  State start() const { return kAll; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t) const {
    for (std::int64_t i = 0; i < n && state == kAll; ++i) state = in[i * stride] != T(0);
  }
  void merge(State& state, const State& later) const { state = kAll ? state && later : state || later; }
  void finish(const State& state, std::int64_t, Out* out, std::int64_t*) const { *out = state; }
};

/// Mean and sum of squared deviations, combined as Chan, Golub and LeVeque do.
template <class T>
struct Var {
  using Out = T;
  struct State {
    double count, mean, squares;
  };
  double correction;
  explicit Var(const double* args) : correction(args[1]) {}
  State start() const { return {0, 0, 0}; }
  void fold(State& state, const T* in, std::int64_t n, std::int64_t stride, std::int64_t) const {
    double mean = sum_row(in, n, stride, [](T x) { return x; }) / static_cast<double>(n);
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double d = static_cast<double>(in[i * stride]) - mean;
      squares += d * d;
    }
    merge(state, {static_cast<double>(n), mean, squares});
  }
  void merge(State& state, const State& later) const {
    double count = state.count + later.count;
    if (count == 0) return;
    double delta = later.mean - state.mean;
    state.squares += later.squares + delta * delta * state.count * later.count / count;
    state.mean += delta * later.count / count;
    state.count = count;
  }
  void finish(const State& state, std::int64_t count, Out* out, std::int64_t*) const {
    *out = static_cast<T>(state.squares / std::max(0.0, static_cast<double>(count) - correction));
  }
};

/// A function of its own, compiled once for the callers below.
template <class T, class Reducer>
[[gnu::noinline]] void fold_row(const Reducer& reducer, typename Reducer::State& state, const T* in, std::int64_t n,
                                std::int64_t stride, std::int64_t first) {
  auto folded = state;  // in registers: the compiler cannot tell `state` from what `in` points at
  reducer.fold(folded, in, n, stride, first);
  state = folded;
}

template <class T, class Reducer>
typename Reducer::State reduce_one(const Reducer& reducer, const Loop<1>& inner, const T* in) {
  auto state = reducer.start();
  std::int64_t first = 0;
  for_rows_in_order(inner, [&](const Offsets<1>& at, std::int64_t n) {
    fold_row(reducer, state, in + at[0], n, inner.strides[0][0], first);
    first += n;
  });
  return state;
}

/// One output of many elements: pieces of fixed size side by side, merged in order.
template <class T, class Reducer>
typename Reducer::State reduce_in_pieces(const Reducer& reducer, const Loop<1>& inner, const T* in) {
  std::int64_t stride = inner.strides[0][0];
  std::int64_t pieces = (inner.numel + kPiece - 1) / kPiece;
  std::vector<typename Reducer::State> states(static_cast<std::size_t>(pieces), reducer.start());
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      auto state = reducer.start();
      std::int64_t n = std::min(kPiece, inner.numel - i * kPiece);
      fold_row(reducer, state, in + i * kPiece * stride, n, stride, i * kPiece);
      states[static_cast<std::size_t>(i)] = state;
    }
  });
  auto state = reducer.start();
  for (const auto& piece : states) reducer.merge(state, piece);
  return state;
}

template <class T, class Reducer>
void reduce_kernel(const ReduceParams& p) {
  const Reducer reducer(p.args);
  auto* out = static_cast<typename Reducer::Out*>(p.out);
  const T* in = static_cast<const T*>(p.in);
  if (p.outer.numel == 1 && p.inner.ndim == 1 && p.inner.numel >= 2 * kPiece) {
    reducer.finish(reduce_in_pieces(reducer, p.inner, in), p.inner.numel, out, p.indices);
    return;
  }
  std::int64_t grain = kGrain / std::max<std::int64_t>(p.inner.numel, 1) + 1;
  for_each(p.outer, grain, [&](const Offsets<2>& at) {
    auto state = reduce_one(reducer, p.inner, in + at[1]);
    reducer.finish(state, p.inner.numel, out + at[0], p.indices == nullptr ? nullptr : p.indices + at[0]);
  });
}

/// Sums of many columns at once: neighbouring outputs are neighbours in memory, so whole rows are added. Floats cascade
/// as PyTorch's outer sums do, with the same bits: each level holds the sums of a power of two of rows of the level
/// below.
template <class T>
class ColumnSums {
 public:
  static constexpr std::int64_t kWidth =
      128;  ///< columns: all levels of f32 are 2 KiB, those of f64 4, of the first cache

  ColumnSums(std::int64_t rows, std::int64_t width) : width_(width) {
    int log2 = rows > 1 ? std::bit_width(static_cast<std::uint64_t>(rows - 1)) : 0;
    power_ = std::max(4, log2 / kLevels);
  }
  void add(const T* row) {
    for (std::int64_t k = 0; k < width_; ++k) levels_[0][k] += static_cast<Sum>(row[k]);
    ++rows_;
    std::int64_t full = (std::int64_t{1} << power_) - 1;
    for (int level = 1; level < kLevels && (rows_ & full) == 0; ++level) {
      move_up(level);
      full |= full << power_;
    }
  }
  /// The sums, once all rows are in.
  auto finish() {
    for (int level = 1; level < kLevels; ++level) {
      for (std::int64_t k = 0; k < width_; ++k) levels_[0][k] += levels_[level][k];
    }
    return levels_[0];
  }

 private:
  using Sum = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  static constexpr int kLevels = 4;  // as PyTorch's

  void move_up(int level) {
    for (std::int64_t k = 0; k < width_; ++k) {
      levels_[level][k] += levels_[level - 1][k];
      levels_[level - 1][k] = 0;
    }
  }

  std::int64_t width_;
  std::int64_t rows_ = 0;
  int power_;
  Sum levels_[kLevels][kWidth] = {};
};

/// What ColumnSums gives for `rows` rows, `step` elements apart, of kColumns (or, where that is 0, `width`) columns.
/// One group of columns at a time, so that its sums stay in registers.
template <int kColumns, class T, class Total>
void cascade_group(const T* in, std::int64_t rows, std::int64_t step, std::int64_t width, Total* total) {
  constexpr int kLevels = 4, kMost = 32;
  const std::int64_t columns = kColumns == 0 ? width : kColumns;
  if (rows < 16) {  // less than the least of chunks: nothing is added on any level
    Total sums[kMost] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t k = 0; k < columns; ++k) sums[k] += static_cast<Total>(in[row * step + k]);
    }
    std::copy_n(sums, columns, total);
    return;
  }
  const int log2 = rows > 1 ? std::bit_width(static_cast<std::uint64_t>(rows - 1)) : 0;
  const int power = std::max(4, log2 / kLevels);
  const std::int64_t chunk = std::int64_t{1} << power;
  Total levels[kLevels][kMost] = {};
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t stop = std::min(rows, row + chunk);
    Total sums[kMost] = {};
    for (; row < stop; ++row) {
      for (std::int64_t k = 0; k < columns; ++k) sums[k] += static_cast<Total>(in[row * step + k]);
    }
    const bool is_whole = row % chunk == 0;
    for (std::int64_t k = 0; k < columns; ++k) levels[is_whole ? 1 : 0][k] += sums[k];
    std::int64_t full = (chunk << power) - 1;
    for (int level = 2; is_whole && level < kLevels && (row & full) == 0; ++level, full |= full << power) {
      for (std::int64_t k = 0; k < columns; ++k) {
        levels[level][k] += levels[level - 1][k];
        levels[level - 1][k] = 0;
      }
    }
  }
  for (std::int64_t k = 0; k < columns; ++k) {
    Total sum = levels[0][k];
    for (int level = 1; level < kLevels; ++level) sum += levels[level][k];
    total[k] = sum;
  }
}

/// The sums of `rows` rows, `step` elements apart, of `width` columns.
template <class T, class Total>
void cascade_rows(const T* in, std::int64_t rows, std::int64_t step, std::int64_t width, Total* total) {
  constexpr int kGroup = 32;
  std::int64_t first = 0;
  for (; first + kGroup <= width; first += kGroup) {
    cascade_group<kGroup>(in + first, rows, step, kGroup, total + first);
  }
  if (first < width) cascade_group<0>(in + first, rows, step, width - first, total + first);
}

/// Columns [first, first + width) into `total`, from rows that lie evenly. PyTorch adds whole groups of 32 columns row
/// by row, and what is left over (less than a group) in four interleaved cascades that are joined at the end.
template <class T, class Total>
void sum_even_columns(const ReduceParams& p, std::int64_t first, std::int64_t width, bool grouped, Total* total) {
  constexpr std::int64_t kWays = 4;
  const T* in = static_cast<const T*>(p.in) + first;
  const std::int64_t rows = p.inner.numel, step = p.inner.strides[0][0];
  if (grouped) return cascade_rows(in, rows, step, width, total);
  const std::int64_t each = rows / kWays;
  cascade_rows(in, each, step * kWays, width, total);
  for (std::int64_t i = each * kWays; i < rows; ++i) {
    for (std::int64_t k = 0; k < width; ++k) total[k] += static_cast<Total>(in[i * step + k]);
  }
  Total part[ColumnSums<T>::kWidth];
  for (std::int64_t way = 1; way < kWays; ++way) {
    cascade_rows(in + way * step, each, step * kWays, width, part);
    for (std::int64_t k = 0; k < width; ++k) total[k] += part[k];
  }
}

/// The same from rows that lie anyhow.
template <class T, class Total>
void sum_some_columns(const ReduceParams& p, std::int64_t first, std::int64_t width, Total* total) {
  constexpr std::int64_t kGroup = 32, kWays = 4;
  bool grouped = first + width <= p.outer.numel / kGroup * kGroup;
  if (p.inner.ndim == 1) return sum_even_columns<T>(p, first, width, grouped, total);
  const T* in = static_cast<const T*>(p.in) + first;
  std::int64_t ways = grouped ? 1 : kWays, each = p.inner.numel / ways;
  std::vector<ColumnSums<T>> sums(static_cast<std::size_t>(ways), ColumnSums<T>(each, width));
  std::vector<const T*> late_rows;
  std::int64_t i = 0;
  for_each(p.inner, std::numeric_limits<std::int64_t>::max(), [&](const Offsets<1>& at) {
    if (i < each * ways) {
      sums[static_cast<std::size_t>(i % ways)].add(in + at[0]);
    } else {
      late_rows.push_back(in + at[0]);
    }
    ++i;
  });
  std::copy_n(sums[0].finish(), width, total);
  for (const T* row : late_rows) {
    for (std::int64_t k = 0; k < width; ++k) total[k] += static_cast<Total>(row[k]);
  }
  for (std::size_t way = 1; way < sums.size(); ++way) {
    const Total* part = sums[way].finish();
    for (std::int64_t k = 0; k < width; ++k) total[k] += part[k];
  }
}

template <class T, bool kMean>
void sum_columns(const ReduceParams& p) {
  using Total = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  constexpr std::int64_t kWidth = ColumnSums<T>::kWidth;
  T* out = static_cast<T*>(p.out);
  std::int64_t grouped = p.outer.numel / 32 * 32;
  parallel_for(p.outer.sizes[0], kGrain / std::max<std::int64_t>(p.inner.numel, 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 Total total[kWidth];
                 for (std::int64_t column = begin; column < end;) {
                   std::int64_t stop = std::min({end, column + kWidth, column < grouped ? grouped : end});
                   sum_some_columns<T>(p, column, stop - column, total);
                   for (std::int64_t k = 0; k < stop - column; ++k) {
                     out[column + k] = kMean ? static_cast<T>(total[k] / static_cast<Total>(p.inner.numel))
                                             : static_cast<T>(total[k]);
                   }
                   column = stop;
                 }
               });
}

template <class T, bool kMean>
void sum_kernel(const ReduceParams& p) {
  bool columns = p.outer.ndim == 1 && p.outer.strides[0][0] == 1 && p.outer.strides[1][0] == 1 && p.outer.numel > 1 &&
                 p.inner.numel > 0 && p.inner.strides[0][0] != 1;
  if (columns) {
    sum_columns<T, kMean>(p);
  } else {
    reduce_kernel<T, Sum<T, kMean>>(p);
  }
}

template <class T>
void fill_any_type(ReductionTable& table) {
  constexpr DType kType = dtype_of<T>;
  table.reduce.set(ReduceOp::max, kType, reduce_kernel<T, Extreme<T, true, false>>);
  table.reduce.set(ReduceOp::min, kType, reduce_kernel<T, Extreme<T, false, false>>);
  table.reduce.set(ReduceOp::argmax, kType, reduce_kernel<T, Extreme<T, true, true>>);
  table.reduce.set(ReduceOp::argmin, kType, reduce_kernel<T, Extreme<T, false, true>>);
  table.reduce.set(ReduceOp::all, kType, reduce_kernel<T, Truth<T, true>>);
  table.reduce.set(ReduceOp::any, kType, reduce_kernel<T, Truth<T, false>>);
}

template <class T>
void fill_arithmetic(ReductionTable& table) {
  table.reduce.set(ReduceOp::sum, dtype_of<T>, sum_kernel<T, false>);
  table.reduce.set(ReduceOp::prod, dtype_of<T>, reduce_kernel<T, Prod<T>>);
}

template <class T>
void fill_float(ReductionTable& table) {
  table.reduce.set(ReduceOp::mean, dtype_of<T>, sum_kernel<T, true>);
  table.reduce.set(ReduceOp::var, dtype_of<T>, reduce_kernel<T, Var<T>>);
  table.reduce.set(ReduceOp::norm, dtype_of<T>, reduce_kernel<T, Norm<T>>);
}

}  // namespace

void fill_reductions(ReductionTable& table) {
  auto any_type = [&]<class... Ts>(std::tuple<Ts...>*) { (fill_any_type<Ts>(table), ...); };
  any_type(static_cast<
           std::tuple<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>*>(
      nullptr));
  fill_arithmetic<std::int64_t>(table);
  fill_arithmetic<float>(table);
  fill_arithmetic<double>(table);
  fill_float<float>(table);
  fill_float<double>(table);
}

}  // namespace core::cpu

// Reductions. A team takes a tile of outputs, and as many lanes for each divide its elements among themselves, laid out
// so that neighbouring lanes read neighbouring elements. Few outputs of many elements are cut into pieces whose states
// a second kernel merges. What is cut where depends on sizes alone and every merge has its place, so results are the
// same in each run. Floats are added up in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

// How elements are read and results written. Which of several types it is may be known when the kernel runs only, so
// that types that are seldom reduced share a kernel. kPack: elements of 16 bytes, where they are read as one, else 1.

template <class T>
struct Plain {
  using Value = T;
  static constexpr int kPack = static_cast<int>(sizeof(Wide) / sizeof(T));
  CORE_HD void load_pack(const void* from, std::int64_t at, T* to) const {
    const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(static_cast<const T*>(from) + at);
    for (int k = 0; k < kPack; ++k) to[k] = pack.values[k];
  }
  CORE_HD T load(const void* from, std::int64_t at) const { return static_cast<const T*>(from)[at]; }
  CORE_HD void store(void* to, std::int64_t at, T value) const { static_cast<T*>(to)[at] = value; }
};

struct AnyHalf {
  using Value = float;
  static constexpr int kPack = 8;
  bool is_bfloat16;
  CORE_HD float load(const void* from, std::int64_t at) const {
    return value_of(static_cast<const std::uint16_t*>(from)[at]);
  }
  CORE_HD void load_pack(const void* from, std::int64_t at, float* to) const {
    const auto pack =
        *reinterpret_cast<const Pack<std::uint16_t, kPack>*>(static_cast<const std::uint16_t*>(from) + at);
    for (int k = 0; k < kPack; ++k) to[k] = value_of(pack.values[k]);
  }
  CORE_HD float value_of(std::uint16_t bits) const { return is_bfloat16 ? widen(BFloat16{bits}) : widen(Half{bits}); }
  CORE_HD void store(void* to, std::int64_t at, float value) const {
    static_cast<std::uint16_t*>(to)[at] = is_bfloat16 ? to_bfloat16(value).bits : to_half(value).bits;
  }
};

struct AnyInteger {
  using Value = std::int64_t;
  static constexpr int kPack = 1;
  DType dtype;
  CORE_HD std::int64_t load(const void* from, std::int64_t at) const {
    switch (dtype) {
      case DType::i8:
        return static_cast<const std::int8_t*>(from)[at];
      case DType::i16:
        return static_cast<const std::int16_t*>(from)[at];
      case DType::i32:
        return static_cast<const std::int32_t*>(from)[at];
      case DType::i64:
        return static_cast<const std::int64_t*>(from)[at];
      default:  // u8, boolean
        return static_cast<const std::uint8_t*>(from)[at];
    }
  }
  CORE_HD void store(void* to, std::int64_t at, std::int64_t value) const {
    switch (dtype) {
      case DType::i16:
        static_cast<std::int16_t*>(to)[at] = static_cast<std::int16_t>(value);
        break;
      case DType::i32:
        static_cast<std::int32_t*>(to)[at] = static_cast<std::int32_t>(value);
        break;
      case DType::i64:
        static_cast<std::int64_t*>(to)[at] = value;
        break;
      default:
        static_cast<std::uint8_t*>(to)[at] = static_cast<std::uint8_t>(value);
    }
  }
};

/// Whether elements of any type differ from 0; results are bytes.
struct AnyTruth {
  using Value = bool;
  static constexpr int kPack = 1;
  DType dtype;
  CORE_HD bool load(const void* from, std::int64_t at) const {
    switch (dtype) {
      case DType::f16:
      case DType::bf16:
        return (static_cast<const std::uint16_t*>(from)[at] & 0x7fffU) != 0;
      case DType::f32:
        return static_cast<const float*>(from)[at] != 0;
      case DType::f64:
        return static_cast<const double*>(from)[at] != 0;
      default:
        return AnyInteger{dtype}.load(from, at) != 0;
    }
  }
  CORE_HD void store(void* to, std::int64_t at, bool value) const {
    static_cast<std::uint8_t*>(to)[at] = value ? 1 : 0;
  }
};

// A reducer has a State, folds elements into it, merges states and turns the last one into the output at `at`.

template <class T>
using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <class Elements>
struct Sum {
  using Value = typename Elements::Value;
  Elements elements;
  using State = Total<Value>;
  bool mean;
  CORE_HD State start() const { return 0; }
  CORE_HD void fold(State& state, Value x, std::int64_t) const { state += static_cast<State>(x); }
  CORE_HD void merge(State& state, const State& other) const { state += other; }
  CORE_HD void finish(State state, std::int64_t count, void* out, std::int64_t*, std::int64_t at) const {
    if (mean) state = static_cast<State>(state / static_cast<State>(count));
    elements.store(out, at, static_cast<Value>(state));
  }
};

template <class Elements>
struct Product {
  using Value = typename Elements::Value;
  Elements elements;
  using State = Total<Value>;
  CORE_HD State start() const { return 1; }
  CORE_HD void fold(State& state, Value x, std::int64_t) const { state *= static_cast<State>(x); }
  CORE_HD void merge(State& state, const State& other) const { state *= other; }
  CORE_HD void finish(State state, std::int64_t, void* out, std::int64_t*, std::int64_t at) const {
    elements.store(out, at, static_cast<Value>(state));
  }
};

template <class C>
struct alignas(8) Best {
  std::int64_t index;  // -1: nothing seen
  C value;
};

/// The first of the best; NaN is best of all.
template <class Elements>
struct Extreme {
  using Value = typename Elements::Value;
  Elements elements;
  using State = Best<Value>;
  bool largest;
  bool index_only;
  CORE_HD State start() const { return {-1, Value(0)}; }
  CORE_HD bool better(Value a, Value b) const {
    if constexpr (std::is_floating_point_v<Value>) {
      if (b != b) return false;
      if (a != a) return true;
    }
    return largest ? a > b : a < b;
  }
  CORE_HD void fold(State& state, Value x, std::int64_t index) const { merge(state, {index, x}); }
  CORE_HD void merge(State& state, const State& other) const {
    if (other.index < 0) return;
    const bool first = other.index < state.index && !better(state.value, other.value);
    if (state.index < 0 || better(other.value, state.value) || first) state = other;
  }
  CORE_HD void finish(const State& state, std::int64_t, void* out, std::int64_t* indices, std::int64_t at) const {
    if (index_only) {
      static_cast<std::int64_t*>(out)[at] = state.index;
    } else {
      elements.store(out, at, state.value);
      if (indices != nullptr) indices[at] = state.index;
    }
  }
};

template <class Elements>
struct Norm {
  using Value = typename Elements::Value;
  Elements elements;
  using State = double;
  double p;
  CORE_HD bool is_plain() const { return p == 0 || p == 1 || std::isinf(p); }
  CORE_HD State start() const { return std::isinf(p) && p < 0 ? HUGE_VAL : 0; }
  CORE_HD void fold(State& state, Value x, std::int64_t) const { merge(state, term(static_cast<double>(x))); }
  CORE_HD double term(double x) const {
    if (p == 2) return x * x;
    if (p == 0) return x != 0 ? 1 : 0;
    return is_plain() ? std::abs(x) : std::pow(std::abs(x), p);
  }
  CORE_HD void merge(State& state, const State& other) const {
    if (!std::isinf(p)) {
      state += other;
    } else if (other != other || (p > 0 ? other > state : other < state)) {
      state = other;
    }
  }
  CORE_HD void finish(const State& state, std::int64_t, void* out, std::int64_t*, std::int64_t at) const {
    const double norm = is_plain() ? state : p == 2 ? std::sqrt(state) : std::pow(state, 1 / p);
    elements.store(out, at, static_cast<Value>(norm));
  }
};

struct Truth {
  AnyTruth elements;
  using State = std::uint32_t;
  bool all;
  CORE_HD State start() const { return all ? 1 : 0; }
  CORE_HD void fold(State& state, bool x, std::int64_t) const { merge(state, x ? 1 : 0); }
  CORE_HD void merge(State& state, const State& other) const { state = all ? state & other : state | other; }
  CORE_HD void finish(const State& state, std::int64_t, void* out, std::int64_t*, std::int64_t at) const {
    elements.store(out, at, state != 0);
  }
};

/// Mean and sum of squared deviations: one element at a time as Welford does, merged as Chan, Golub and LeVeque do.
struct Moments {
  double count, mean, squares;
};
template <class Elements>
struct Variance {
  using Value = typename Elements::Value;
  Elements elements;
  using State = Moments;
  double correction;
  CORE_HD State start() const { return {0, 0, 0}; }
  CORE_HD void fold(State& state, Value x, std::int64_t) const {
    const double value = static_cast<double>(x), delta = value - state.mean;
    state.count += 1;
    state.mean += delta / state.count;
    state.squares += delta * (value - state.mean);
  }
  CORE_HD void merge(State& state, const State& other) const {
    const double count = state.count + other.count;
    if (count == 0) return;
    const double delta = other.mean - state.mean;
    state.squares += other.squares + delta * delta * state.count * other.count / count;
    state.mean += delta * other.count / count;
    state.count = count;
  }
  CORE_HD void finish(const State& state, std::int64_t count, void* out, std::int64_t*, std::int64_t at) const {
    const double divisor = static_cast<double>(count) - correction;
    elements.store(out, at, static_cast<Value>(state.squares / (divisor > 0 ? divisor : 0)));
  }
};

/// How a reduction is cut up.
struct Cut {
  std::int64_t outputs, count;
  int lanes;            // of a team
  int wide;             // outputs of a tile; each has lanes / wide lanes
  bool across;          // lanes beside each other take neighbouring outputs, else neighbouring elements of an output
  std::int64_t tiles;   // of the outputs
  std::int64_t pieces;  // of the elements of an output
  std::int64_t length;  // of a piece
};

/// The lanes of a team and the outputs that it takes: neighbouring lanes read neighbouring elements, and a lane takes
/// several elements where there are enough outputs to keep the device busy.
void choose_team(Cut& cut, bool beside) {
  constexpr std::int64_t kFewElements = 16, kLongRow = 512, kTeam = 256, kEach = 16;
  constexpr std::int64_t kManyOutputs = 132 * 512, kManyRows = 132 * 16;
  cut.across = cut.count <= kFewElements || beside;
  const bool many_rows = cut.outputs >= kManyRows;
  if (cut.across) {
    const bool alone = cut.count <= kFewElements || cut.outputs >= kManyOutputs;
    cut.lanes = team_size(kTeam);
    cut.wide = alone ? cut.lanes : std::min(32, std::max(1, cut.lanes / 2));
  } else if (many_rows && cut.count <= kLongRow) {
    cut.lanes = team_size(kTeam);
    int each_lanes = 4;
    while (each_lanes * kEach < cut.count) each_lanes *= 2;
    cut.wide = std::max(1, cut.lanes / each_lanes);
  } else {
    cut.lanes = team_size(many_rows ? cut.count / kEach : cut.count);
    cut.wide = 1;
  }
}

Cut cut_for(const ReduceParams& p) {
  constexpr std::int64_t kEnoughTeams = 132 * 4;
  constexpr std::int64_t kPieceSteps = 16;  // a lane takes at least so many elements before another piece pays
  const auto size = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  Cut cut{};
  cut.outputs = p.outer.numel;
  cut.count = p.inner.numel;
  choose_team(cut, p.outer.sizes[0] > 1 && size(p.outer.strides[1][0]) < size(p.inner.strides[0][0]));
  cut.tiles = divide_up(cut.outputs, cut.wide);
  const std::int64_t step = cut.lanes / cut.wide;
  cut.pieces = std::max<std::int64_t>(1, std::min(kEnoughTeams / cut.tiles, cut.count / (step * kPieceSteps)));
  constexpr std::int64_t kMostPack = 8;  // pieces begin where packs do
  cut.length = divide_up(divide_up(cut.count, cut.pieces), step * kMostPack) * step * kMostPack;
  cut.pieces = std::max<std::int64_t>(1, divide_up(cut.count, std::max<std::int64_t>(cut.length, 1)));
  return cut;
}

/// Whether every lane can read packs of `pack` elements: outputs and pieces begin where one does.
bool fit_packs(const ReduceParams& p, const Cut& cut, int pack) {
  bool fit =
      pack > 1 && !cut.across && p.inner.ndim == 1 && p.inner.strides[0][0] == 1 && is_aligned(p.in, sizeof(Wide));
  for (int d = 0; d < p.outer.ndim; ++d) fit = fit && p.outer.strides[1][d] % pack == 0;
  return fit;
}

/// Row number: piece * tiles + tile.
template <class Reducer>
struct ReduceTile {
  using State = typename Reducer::State;
  static constexpr int kPack = decltype(Reducer::elements)::kPack;
  Reducer reducer;
  Cut cut;
  const void* in;
  void* out;
  std::int64_t* indices;
  Indexer<2> outer;
  Indexer<1> inner;
  bool is_even;  // the inner loop has one dimension, of stride `step`
  std::int64_t step;
  bool packs;     // fit_packs()
  State* states;  // of [piece][output], where there are several pieces

  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t piece = row / cut.tiles;
    const int deep = team.size() / cut.wide;
    const int column = cut.across ? team.lane() % cut.wide : team.lane() / deep;
    const int depth = cut.across ? team.lane() / cut.wide : team.lane() % deep;
    const std::int64_t output = (row - piece * cut.tiles) * cut.wide + column;
    State state = reducer.start();
    std::int64_t at = 0;
    if (output < cut.outputs) {
      const auto offsets = outer(output);
      at = offsets[0];
      const std::int64_t begin = piece * cut.length, end = begin + cut.length;
      fold_piece(state, offsets[1], {begin, end < cut.count ? end : cut.count}, {depth, deep});
    }
    combine(team, state, column, depth);
    if (depth != 0 || output >= cut.outputs) return;
    if (cut.pieces > 1) {
      states[piece * cut.outputs + output] = state;
    } else {
      reducer.finish(state, cut.count, out, indices, at);
    }
  }

  struct Range {
    std::int64_t begin, end;
  };
  struct Share {
    int depth, deep;  // this lane, and the lanes that share a piece
  };
  CORE_BODY void fold_piece(State& state, std::int64_t from, Range range, Share share) const {
    if constexpr (kPack > 1) {
      if (packs) range.begin = fold_packs(state, from, range, share);
    }
    fold(state, from, range.begin + share.depth, range.end, share.deep);
  }

  /// Whole packs of the range; returns where the rest begins. Two packs are on their way at once.
  CORE_BODY std::int64_t fold_packs(State& state, std::int64_t from, Range range, Share share) const {
    const std::int64_t count = (range.end - range.begin) / kPack;
    typename decltype(Reducer::elements)::Value x[2][kPack];
    const auto fold_one = [&](const auto& values, std::int64_t pack) {
      for (int k = 0; k < kPack; ++k) reducer.fold(state, values[k], range.begin + pack * kPack + k);
    };
    std::int64_t i = share.depth;
    for (; i + share.deep < count; i += 2 * share.deep) {
      reducer.elements.load_pack(in, from + range.begin + i * kPack, x[0]);
      reducer.elements.load_pack(in, from + range.begin + (i + share.deep) * kPack, x[1]);
      fold_one(x[0], i);
      fold_one(x[1], i + share.deep);
    }
    if (i < count) {
      reducer.elements.load_pack(in, from + range.begin + i * kPack, x[0]);
      fold_one(x[0], i);
    }
    return range.begin + count * kPack;
  }

  /// Elements i, i + skip, ... below `end`. Several loads are on their way at once.
  CORE_BODY void fold(State& state, std::int64_t from, std::int64_t i, std::int64_t end, std::int64_t skip) const {
    constexpr int kTogether = 4;
    for (; is_even && i + (kTogether - 1) * skip < end; i += kTogether * skip) {
      decltype(reducer.elements.load(in, 0)) x[kTogether];
      for (int k = 0; k < kTogether; ++k) x[k] = reducer.elements.load(in, from + (i + k * skip) * step);
      for (int k = 0; k < kTogether; ++k) reducer.fold(state, x[k], i + k * skip);
    }
    CORE_NO_UNROLL
    for (; i < end; i += skip) {
      reducer.fold(state, reducer.elements.load(in, from + (is_even ? i * step : inner(i)[0])), i);
    }
  }

  /// The states of all depths of a column, in depth 0.
  CORE_BODY void combine(const Team& team, State& state, int column, int depth) const {
    if (cut.wide == 1) {
      state = team.reduce(state, [this](State a, const State& b) {
        reducer.merge(a, b);
        return a;
      });
      return;
    }
    State* all = team.shared<State>();
    CORE_NO_UNROLL
    for (int half = team.size() / cut.wide / 2; half > 0; half /= 2) {
      if (depth >= half && depth < 2 * half) all[depth * cut.wide + column] = state;
      team.sync();  // one is enough: the next round writes other places than this one reads
      if (depth < half) reducer.merge(state, all[(depth + half) * cut.wide + column]);
    }
  }
};

template <class Reducer>
struct MergePieces {
  using State = typename Reducer::State;
  Reducer reducer;
  Cut cut;
  void* out;
  std::int64_t* indices;
  Indexer<2> outer;
  const State* states;

  CORE_BODY void operator()(const Team& team, std::int64_t output) const {
    State state = reducer.start();
    CORE_NO_UNROLL
    for (std::int64_t i = team.lane(); i < cut.pieces; i += team.size()) {
      reducer.merge(state, states[i * cut.outputs + output]);
    }
    state = team.reduce(state, [this](State a, const State& b) {
      reducer.merge(a, b);
      return a;
    });
    if (team.lane() == 0) reducer.finish(state, cut.count, out, indices, outer(output)[0]);
  }
};

template <class Reducer>
void run_reduction(const ReduceParams& p, const Reducer& reducer) {
  using State = typename Reducer::State;
  if (p.outer.numel == 0) return;
  const Cut cut = cut_for(p);
  const Indexer<2> outer(p.outer);
  const auto state_count = static_cast<std::size_t>(cut.pieces > 1 ? cut.pieces * cut.outputs : 0);
  const Scratch states(state_count * sizeof(State));
  const std::size_t shared = cut.wide > 1 ? sizeof(State) * static_cast<std::size_t>(cut.lanes) : 0;
  for_each_row(
      cut.tiles * cut.pieces, cut.lanes, shared,
      ReduceTile<Reducer>{reducer, cut, p.in, p.out, p.indices, outer, Indexer<1>(p.inner), p.inner.ndim == 1,
                          p.inner.strides[0][0], fit_packs(p, cut, ReduceTile<Reducer>::kPack), states.as<State>()});
  if (cut.pieces == 1) return;
  for_each_row(cut.outputs, cut.pieces,
               MergePieces<Reducer>{reducer, cut, p.out, p.indices, outer, states.as<State>()});
}

// The slots. kType is a template argument because a slot is a plain function.

template <DType kType>
auto elements_of() {
  if constexpr (kType == DType::f32) {
    return Plain<float>{};
  } else if constexpr (kType == DType::f64) {
    return Plain<double>{};
  } else if constexpr (kType == DType::f16 || kType == DType::bf16) {
    return AnyHalf{kType == DType::bf16};
  } else {
    return AnyInteger{kType};
  }
}
template <DType kType>
using ElementsOf = decltype(elements_of<kType>());

template <DType kType, bool kMean>
void sum_kernel(const ReduceParams& p) {
  run_reduction(p, Sum<ElementsOf<kType>>{elements_of<kType>(), kMean});
}
template <DType kType>
void product_kernel(const ReduceParams& p) {
  run_reduction(p, Product<ElementsOf<kType>>{elements_of<kType>()});
}
template <DType kType, bool kLargest, bool kIndexOnly>
void extreme_kernel(const ReduceParams& p) {
  run_reduction(p, Extreme<ElementsOf<kType>>{elements_of<kType>(), kLargest, kIndexOnly});
}
template <DType kType>
void norm_kernel(const ReduceParams& p) {
  run_reduction(p, Norm<ElementsOf<kType>>{elements_of<kType>(), p.args[0]});
}
template <DType kType, bool kAll>
void truth_kernel(const ReduceParams& p) {
  run_reduction(p, Truth{{kType}, kAll});
}
template <DType kType>
void variance_kernel(const ReduceParams& p) {
  run_reduction(p, Variance<ElementsOf<kType>>{elements_of<kType>(), p.args[1]});
}

template <DType kType>
void fill_any_type(ReductionTable& table) {
  table.reduce.set(ReduceOp::max, kType, extreme_kernel<kType, true, false>);
  table.reduce.set(ReduceOp::min, kType, extreme_kernel<kType, false, false>);
  table.reduce.set(ReduceOp::argmax, kType, extreme_kernel<kType, true, true>);
  table.reduce.set(ReduceOp::argmin, kType, extreme_kernel<kType, false, true>);
  table.reduce.set(ReduceOp::all, kType, truth_kernel<kType, true>);
  table.reduce.set(ReduceOp::any, kType, truth_kernel<kType, false>);
}

template <DType kType>
void fill_arithmetic(ReductionTable& table) {
  table.reduce.set(ReduceOp::sum, kType, sum_kernel<kType, false>);
  table.reduce.set(ReduceOp::prod, kType, product_kernel<kType>);
}

template <DType kType>
void fill_float(ReductionTable& table) {
  fill_any_type<kType>(table);
  fill_arithmetic<kType>(table);
  table.reduce.set(ReduceOp::mean, kType, sum_kernel<kType, true>);
  table.reduce.set(ReduceOp::var, kType, variance_kernel<kType>);
  table.reduce.set(ReduceOp::norm, kType, norm_kernel<kType>);
}

}  // namespace

void fill_reductions(ReductionTable& table) {
  fill_any_type<DType::boolean>(table);
  fill_any_type<DType::u8>(table);
  fill_any_type<DType::i8>(table);
  fill_any_type<DType::i16>(table);
  fill_any_type<DType::i32>(table);
  fill_any_type<DType::i64>(table);
  fill_arithmetic<DType::i64>(table);
  fill_float<DType::f16>(table);
  fill_float<DType::bf16>(table);
  fill_float<DType::f32>(table);
  fill_float<DType::f64>(table);
}

}  // namespace core::CORE_KERNELS

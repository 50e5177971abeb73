// Random fills: what backend/cpu/random/philox_fills.cpp computes on the host for logical devices, on the device. Each
// thread of the launch that PyTorch would make has four words of the Philox generator a round; an element takes one or
// two of them. What is computed from the words is random_arithmetic.h's.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/random_arithmetic.h"

namespace core::CORE_KERNELS {
namespace {

namespace numbers = core::random_arithmetic;

/// double for f64, else float: also for integers.
template <class T>
using Drawn = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// From a drawn number or an integer to an element; the halves through f32.
template <class T, class Number>
CORE_BODY T element_from(Number value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return narrow<T>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return static_cast<float>(value) != 0.0F;
  } else {
    return static_cast<T>(value);
  }
}

/// What every fill has: which words make which elements. In a round each of `threads` threads makes `parts` elements,
/// `threads` apart, from four words.
struct Draws {
  std::uint64_t seed, offset;
  const std::uint64_t* state;  // of a captured graph: {seed, offset}; or null
  std::int64_t count, threads;
  int parts;
  Splitter rounds;

  /// The words of block `block` behind the generator's offset.
  CORE_BODY PhiloxWords words(std::uint64_t block, std::uint64_t thread) const {
    const std::uint64_t key = state != nullptr ? state[0] : seed;
    const std::uint64_t first = state != nullptr ? state[1] + offset : offset;
    return philox({.key = key, .offset = first / 4 + block, .thread = thread});
  }
  /// Calls store(element, words, part) for what thread i of all rounds makes.
  template <class Store>
  CORE_BODY void each(std::int64_t i, Store store) const {
    const std::int64_t round = rounds.quotient(i), thread = rounds.rest(i, round);
    const PhiloxWords drawn = words(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(thread));
    CORE_NO_UNROLL
    for (int part = 0; part < parts; ++part) {
      const std::int64_t at = (round * parts + part) * threads + thread;
      if (at < count) store(at, drawn, part);
    }
  }
};

Draws draws_of(const RandomParams& p, int parts) {
  const std::int64_t threads = p.count > 0 ? random_threads(p.count) : 1;
  return {p.seed, p.offset, p.state, p.count, threads, parts, Splitter(threads, p.count + threads * parts)};
}

/// fill(i) for every thread i of every round.
template <class Fill>
void for_each_draw(const Fill& fill) {
  if (fill.draws.count == 0) return;
  for_each(divide_up(fill.draws.count, fill.draws.threads * fill.draws.parts) * fill.draws.threads, fill);
}

/// [from, to): what rounds to `to` becomes `from`.
template <class T>
struct UniformFill {
  using C = Computed<T>;
  Draws draws;
  T* out;
  numbers::UniformRange<C> limits;

  CORE_BODY void operator()(std::int64_t i) const {
    draws.each(i, [this](std::int64_t at, const PhiloxWords& words, int part) { out[at] = value(words, part); });
  }
  CORE_BODY T value(const PhiloxWords& words, int part) const {
    const T rounded = narrow<T>(std::fma(numbers::unit_number<C>(words, part), limits.range, limits.from));
    return widen(rounded) == limits.to ? narrow<T>(limits.from) : rounded;
  }
};

template <class T>
void uniform_fill(const RandomParams& p) {
  using C = Computed<T>;
  const C from = widen(narrow<T>(static_cast<C>(p.a))), to = widen(narrow<T>(static_cast<C>(p.b)));
  const Draws draws = draws_of(p, numbers::kParts<C>);
  for_each_draw(UniformFill<T>{draws, static_cast<T*>(p.out), {from, to, widen(narrow<T>(to - from))}});
}

/// normal and log_normal.
template <class T>
struct NormalFill {
  using C = Computed<T>;
  RandomOp op;
  Draws draws;
  T* out;
  C mean, std;

  CORE_BODY void operator()(std::int64_t i) const {
    draws.each(i, [this](std::int64_t at, const PhiloxWords& words, int part) {
      out[at] = narrow<T>(numbers::from_normal(op, numbers::normal_number<C>(words, part), mean, std));
    });
  }
};

template <class T, RandomOp kOp>
void normal_fill(const RandomParams& p) {
  using C = Computed<T>;
  const Draws draws = draws_of(p, numbers::kParts<C>);
  for_each_draw(NormalFill<T>{kOp, draws, static_cast<T*>(p.out), static_cast<C>(p.a), static_cast<C>(p.b)});
}

/// What is made from one uniform number.
template <class T>
struct TransformedFill {
  using C = Drawn<T>;
  RandomOp op;
  Draws draws;
  T* out;
  C a, b;

  CORE_BODY void operator()(std::int64_t i) const {
    draws.each(i, [this](std::int64_t at, const PhiloxWords& words, int part) {
      out[at] = element_from<T>(numbers::from_uniform(op, numbers::unit_number<C>(words, part), a, b));
    });
  }
};

template <class T, RandomOp kOp>
void transformed_fill(const RandomParams& p) {
  using C = Drawn<T>;
  const Draws draws = draws_of(p, numbers::kParts<C>);
  for_each_draw(TransformedFill<T>{kOp, draws, static_cast<T*>(p.out), static_cast<C>(p.a), static_cast<C>(p.b)});
}

template <class T>
struct IntegerFill {
  Draws draws;
  T* out;
  std::uint64_t from, size;

  CORE_BODY void operator()(std::int64_t i) const {
    draws.each(i, [this](std::int64_t at, const PhiloxWords& words, int part) {
      const std::uint64_t number = draws.parts == 2 ? numbers::wide_number(words, part) : words.pick(part);
      out[at] = element_from<T>(static_cast<std::int64_t>(from + number % size));
    });
  }
};

/// Largest number of any_integer: what the type holds exactly.
template <class T>
constexpr std::uint64_t max_integer() {
  if constexpr (std::is_same_v<T, Half>) return 1ULL << 11;
  if constexpr (std::is_same_v<T, BFloat16>) return 1ULL << 8;
  if constexpr (std::is_floating_point_v<T>) return 1ULL << std::numeric_limits<T>::digits;
  if constexpr (std::is_integral_v<T>) {
    return std::min<std::uint64_t>(std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max());
  }
}

template <class T, RandomOp kOp>
void integer_fill(const RandomParams& p) {
  const bool any = kOp == RandomOp::any_integer;
  const std::uint64_t size = any ? max_integer<T>() + 1 : p.size;
  const Draws draws = draws_of(p, random_parts(kOp, dtype_of<T>, size));
  for_each_draw(IntegerFill<T>{draws, static_cast<T*>(p.out), any ? 0 : static_cast<std::uint64_t>(p.from), size});
}

/// A thread makes four neighbours, however many there are.
template <class T>
struct BernoulliEachFill {
  Draws draws;
  T* out;
  const Drawn<T>* probabilities;

  CORE_BODY void operator()(std::int64_t thread) const {
    const PhiloxWords words = draws.words(0, static_cast<std::uint64_t>(thread));
    CORE_NO_UNROLL
    for (int part = 0; part < 4; ++part) {
      const std::int64_t at = thread * 4 + part;
      if (at < draws.count) out[at] = element_from<T>(numbers::unit32(words.pick(part)) <= probabilities[at] ? 1 : 0);
    }
  }
};

template <class T>
void bernoulli_each(const RandomParams& p) {
  const auto* probabilities = static_cast<const Drawn<T>*>(p.in);
  for_each(divide_up(p.count, 4), BernoulliEachFill<T>{draws_of(p, 4), static_cast<T*>(p.out), probabilities});
}

/// kWidth neighbours at a time; 1: single elements. REQUIRES: kWidth divides the count, `in` lies on a whole pack.
template <class T, int kWidth>
struct DropoutFill {
  using C = Computed<T>;
  Draws draws;
  const T* in;
  T* out;
  bool* kept;
  C keep, scale;

  CORE_BODY void operator()(std::int64_t pack) const {
    const Pack<T, kWidth> from = reinterpret_cast<const Pack<T, kWidth>*>(in)[pack];
    Pack<T, kWidth> to;
    Pack<bool, kWidth> is_kept;
    PhiloxWords words;
    for (int k = 0; k < kWidth; ++k) {
      const auto place = numbers::dropout_place(pack * kWidth + k, draws.threads, kWidth);
      if (k % 4 == 0) words = draws.words(place.block, place.thread);
      is_kept.values[k] = numbers::unit32(words.pick(place.part)) < keep;
      to.values[k] = narrow<T>(widen(from.values[k]) * (is_kept.values[k] ? C(1) : C(0)) * scale);
    }
    reinterpret_cast<Pack<T, kWidth>*>(out)[pack] = to;
    reinterpret_cast<Pack<bool, kWidth>*>(kept)[pack] = is_kept;
  }
};

template <class T, int kWidth>
void drop(const RandomParams& p) {
  using C = Computed<T>;
  const C keep = static_cast<C>(p.a);
  for_each(p.count / kWidth, DropoutFill<T, kWidth>{draws_of(p, 4), static_cast<const T*>(p.in), static_cast<T*>(p.out),
                                                    p.kept, keep, static_cast<C>(1.0 / static_cast<double>(keep))});
}

template <class T>
void dropout(const RandomParams& p) {
  if constexpr (sizeof(T) <= 2) {
    if (p.size == 8) return drop<T, 8>(p);
  }
  if constexpr (sizeof(T) <= 4) {
    if (p.size == 4) return drop<T, 4>(p);
  }
  if (p.size == 2) return drop<T, 2>(p);
  drop<T, 1>(p);
}

template <class... Ts>
void fill_numbers(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::bernoulli, dtype_of<Ts>, transformed_fill<Ts, R::bernoulli>), ...);
  (table.fill.set(R::geometric, dtype_of<Ts>, transformed_fill<Ts, R::geometric>), ...);
  (table.fill.set(R::integers, dtype_of<Ts>, integer_fill<Ts, R::integers>), ...);
  (table.fill.set(R::any_integer, dtype_of<Ts>, integer_fill<Ts, R::any_integer>), ...);
  (table.fill.set(R::bernoulli_each, dtype_of<Ts>, bernoulli_each<Ts>), ...);
}
template <class... Ts>
void fill_floats(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::uniform, dtype_of<Ts>, uniform_fill<Ts>), ...);
  (table.fill.set(R::normal, dtype_of<Ts>, normal_fill<Ts, R::normal>), ...);
  (table.fill.set(R::log_normal, dtype_of<Ts>, normal_fill<Ts, R::log_normal>), ...);
  (table.fill.set(R::exponential, dtype_of<Ts>, transformed_fill<Ts, R::exponential>), ...);
  (table.fill.set(R::cauchy, dtype_of<Ts>, transformed_fill<Ts, R::cauchy>), ...);
  (table.fill.set(R::dropout, dtype_of<Ts>, dropout<Ts>), ...);
}

}  // namespace

void fill_random(RandomTable& table) {
  fill_floats<Half, BFloat16, float, double>(table);
  fill_numbers<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
               std::uint64_t, Half, BFloat16, float, double>(table);
}

}  // namespace core::CORE_KERNELS

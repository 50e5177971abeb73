// Random fills: what libcore/tensor/random_cuda.cpp computes on the host for logical devices, on the device. Each
// thread of the launch that PyTorch would make has four words of the Philox generator a round; an element takes one or
// two of them. Words and their use are the same bit for bit; logarithms, sines and tangents may differ in the last
// places. Source of the generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

struct Words {
  std::uint32_t at[4];
  /// at[k] without an address, which would put the words into memory.
  CORE_BODY std::uint32_t pick(int k) const { return k < 2 ? (k == 0 ? at[0] : at[1]) : (k == 2 ? at[2] : at[3]); }
};

CORE_BODY Words philox(std::uint64_t key, std::uint64_t offset, std::uint64_t thread) {
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  Words c = {{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
              static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(thread >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.at[0], p1 = std::uint64_t{0xCD9E8D57} * c.at[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.at[1] ^ key0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.at[3] ^ key1, static_cast<std::uint32_t>(p0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

/// (0, 1]. Rounded twice, as the host does: no fused multiplication.
CORE_BODY float unit32(std::uint32_t word) {
#ifdef __CUDACC__
  return __fadd_rn(__fmul_rn(static_cast<float>(word), 2.3283064e-10F), 1.1641532e-10F);
#else
  return static_cast<float>(word) * 2.3283064e-10F + 1.1641532e-10F;
#endif
}
/// (0, 1] from two words. Exact in the multiplication, so that fusing changes nothing.
CORE_BODY double unit64(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = low ^ (static_cast<std::uint64_t>(high) << 21);
  return static_cast<double>(bits) * 0x1p-53 + 0x1p-54;
}

/// Standard normal numbers by the Box-Muller rule; `part` of what four words give.
CORE_BODY float normal32(const Words& words, int part) {
  constexpr float kStep = 2.3283064e-10F * 6.2831855F;
  const float radius = std::sqrt(-2.0F * std::log(unit32(words.at[part & ~1])));
#ifdef __CUDACC__
  const float angle = __fadd_rn(__fmul_rn(static_cast<float>(words.at[part | 1]), kStep), kStep / 2);
#else
  const float angle = static_cast<float>(words.at[part | 1]) * kStep + kStep / 2;
#endif
  return radius * ((part & 1) == 0 ? std::sin(angle) : std::cos(angle));
}
CORE_BODY double normal64(const Words& words, int part) {
  const double radius = std::sqrt(-2.0 * std::log(unit64(words.at[0], words.at[1])));
  const double angle = 2.0 * std::numbers::pi * unit64(words.at[2], words.at[3]);
  return radius * (part == 0 ? std::sin(angle) : std::cos(angle));
}

/// From a double or an integer to an element; the halves through f32.
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

  CORE_BODY Words words(std::int64_t round, std::int64_t thread) const {
    const std::uint64_t key = state != nullptr ? state[0] : seed;
    const std::uint64_t first = state != nullptr ? state[1] + offset : offset;
    return philox(key, first / 4 + static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(thread));
  }
};

Draws draws_of(const RandomParams& p, int parts) {
  constexpr std::int64_t kThreadsPerBlock = 256, kBlocks = 132 * 2048 / kThreadsPerBlock;
  const std::int64_t threads = std::min(divide_up(p.count, kThreadsPerBlock), kBlocks) * kThreadsPerBlock;
  return {p.seed, p.offset, p.state, p.count, threads, parts, Splitter(threads, p.count + threads)};
}

/// fill(i) for every thread i of every round.
template <class Fill>
void for_each_draw(const Fill& fill) {
  if (fill.draws.count == 0) return;
  for_each(divide_up(fill.draws.count, fill.draws.threads * fill.draws.parts) * fill.draws.threads, fill);
}

/// uniform, normal and log_normal: in double for f64, in float for the rest.
template <class T>
struct FloatFill {
  using C = Computed<T>;
  RandomOp op;
  Draws draws;
  T* out;
  C a, b;  // uniform: lowest and width

  CORE_BODY void operator()(std::int64_t i) const {
    constexpr int kParts = std::is_same_v<C, double> ? 2 : 4;
    const std::int64_t round = draws.rounds.quotient(i), thread = draws.rounds.rest(i, round);
    const Words words = draws.words(round, thread);
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t at = (round * kParts + part) * draws.threads + thread;
      if (at < draws.count) out[at] = narrow<T>(value(words, part));
    }
  }
  CORE_BODY C value(const Words& words, int part) const {
    if (op == RandomOp::uniform) {
      const C u = unit(words, part);
      return std::fma(u == C(1) ? C(0) : u, b, a);
    }
    const C drawn = std::fma(normal(words, part), b, a);
    return op == RandomOp::log_normal ? std::exp(drawn) : drawn;
  }
  CORE_BODY static C unit(const Words& words, int part) {
    if constexpr (std::is_same_v<C, double>) return unit64(words.at[2 * part], words.at[2 * part + 1]);
    if constexpr (!std::is_same_v<C, double>) return unit32(words.at[part]);
  }
  CORE_BODY static C normal(const Words& words, int part) {
    if constexpr (std::is_same_v<C, double>) return normal64(words, part);
    if constexpr (!std::is_same_v<C, double>) return normal32(words, part);
  }
};

template <class T, RandomOp kOp>
void float_fill(const RandomParams& p) {
  using C = Computed<T>;
  const Draws draws = draws_of(p, std::is_same_v<C, double> ? 2 : 4);
  const C a = static_cast<C>(p.a);
  const C b = kOp == RandomOp::uniform ? static_cast<C>(p.b) - a : static_cast<C>(p.b);
  for_each_draw(FloatFill<T>{kOp, draws, static_cast<T*>(p.out), a, b});
}

/// Made from one uniform number of 32 bits in (0, 1], in double.
CORE_BODY double from_uniform(RandomOp op, double u, double a, double b) {
  switch (op) {
    case RandomOp::bernoulli:
      return u < a ? 1.0 : 0.0;
    case RandomOp::exponential:
      return -1.0 / a * std::log(u);
    case RandomOp::geometric:
      return std::ceil(std::log(u) / std::log1p(-a));
    default: {  // cauchy
      constexpr double kLowest = std::numeric_limits<double>::epsilon();
      const double inside = u < kLowest ? kLowest : u > 1 - kLowest ? 1 - kLowest : u;
      return a + b * std::tan(std::numbers::pi * (inside - 0.5));
    }
  }
}

template <class T>
struct NumberFill {
  RandomOp op;
  Draws draws;
  T* out;
  double a, b;
  std::uint64_t from, size;

  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t round = draws.rounds.quotient(i), thread = draws.rounds.rest(i, round);
    const Words words = draws.words(round, thread);
    CORE_NO_UNROLL
    for (int part = 0; part < draws.parts; ++part) {
      const std::int64_t at = (round * draws.parts + part) * draws.threads + thread;
      if (at < draws.count) out[at] = value(words, part);
    }
  }
  CORE_BODY T value(const Words& words, int part) const {
    if (op != RandomOp::integers) {
      return element_from<T>(from_uniform(op, static_cast<double>(unit32(words.pick(part))), a, b));
    }
    const std::uint64_t number = draws.parts == 2
                                     ? static_cast<std::uint64_t>(words.pick(2 * part)) << 32 | words.pick(2 * part + 1)
                                     : words.pick(part);
    return element_from<T>(static_cast<std::int64_t>(from + number % size));
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
void number_fill(const RandomParams& p) {
  const bool any = kOp == RandomOp::any_integer;
  const std::uint64_t size = any ? max_integer<T>() + 1 : p.size;
  const bool is_wide = any ? sizeof(T) == 8 : kOp == RandomOp::integers && size >= 1ULL << 28;
  for_each_draw(NumberFill<T>{any ? RandomOp::integers : kOp, draws_of(p, is_wide ? 2 : 4), static_cast<T*>(p.out), p.a,
                              p.b, any ? 0 : static_cast<std::uint64_t>(p.from), size});
}

template <class T, RandomOp... kOps>
void set_numbers(RandomTable& table) {
  (table.fill.set(kOps, dtype_of<T>, number_fill<T, kOps>), ...);
}
template <class... Ts>
void fill_numbers(RandomTable& table) {
  using R = RandomOp;
  (set_numbers<Ts, R::bernoulli, R::exponential, R::geometric, R::cauchy, R::integers, R::any_integer>(table), ...);
}
template <class... Ts>
void fill_floats(RandomTable& table) {
  (table.fill.set(RandomOp::uniform, dtype_of<Ts>, float_fill<Ts, RandomOp::uniform>), ...);
  (table.fill.set(RandomOp::normal, dtype_of<Ts>, float_fill<Ts, RandomOp::normal>), ...);
  (table.fill.set(RandomOp::log_normal, dtype_of<Ts>, float_fill<Ts, RandomOp::log_normal>), ...);
}

}  // namespace

void fill_random(RandomTable& table) {
  fill_floats<Half, BFloat16, float, double>(table);
  fill_numbers<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
               std::uint64_t, Half, BFloat16, float, double>(table);
}

}  // namespace core::CORE_KERNELS

#pragma once
// What a CUDA device computes from the words of its generator: one text for the kernels and for the host, which makes
// the numbers of logical devices. The rules are those of PyTorch 2.15 and of cuRAND, down to each rounding and fused
// multiplication; f64 is computed in double, every other type in float. Uniform numbers, integers and what is decided
// by comparing a uniform number (bernoulli, dropout, the order of randperm) have the same bits everywhere. On a device,
// exponential, geometric, cauchy and log_normal of float go through __logf, __tanf and __expf, and normal through
// __sincosf: approximations of the hardware, and so are their last bits, where the host takes logf, tanf, expf, sinf
// and cosf. In double both use the library's functions, whose last bit may differ between the host's library and
// CUDA's. Thread safety: pure functions. Use: const float u = unit_number<float>(words, part);

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "libcore/backend/philox.h"
#include "libcore/backend/random_table.h"

namespace core::random_arithmetic {

CORE_RANDOM_HD inline float log_of(float x) {
#ifdef __CUDA_ARCH__
  return __logf(x);
#else
  return std::log(x);
#endif
}
CORE_RANDOM_HD inline double log_of(double x) {
  return std::log(x);
}

/// log(1 - p): in float by the plain difference, as no quick function of log1p exists.
CORE_RANDOM_HD inline float log_of_rest(float p) {
  return log_of(1.0F - p);
}
CORE_RANDOM_HD inline double log_of_rest(double p) {
  return std::log1p(-p);
}

CORE_RANDOM_HD inline float tan_of(float x) {
#ifdef __CUDA_ARCH__
  return __tanf(x);
#else
  return std::tan(x);
#endif
}
CORE_RANDOM_HD inline double tan_of(double x) {
  return std::tan(x);
}

CORE_RANDOM_HD inline float exp_of(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return std::exp(x);
#endif
}
CORE_RANDOM_HD inline double exp_of(double x) {
  return std::exp(x);
}

/// (0, 1] from one word. The multiplication is exact: fusing it changes nothing.
CORE_RANDOM_HD inline float unit32(std::uint32_t word) {
  return std::fma(static_cast<float>(word), 0x1p-32F, 0x1p-33F);
}
/// (0, 1] from two words.
CORE_RANDOM_HD inline double unit64(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = low ^ (static_cast<std::uint64_t>(high) << 21);
  return std::fma(static_cast<double>(bits), 0x1p-53, 0x1p-54);
}

/// How many elements of a computed type four words make.
template <class C>
inline constexpr int kParts = std::is_same_v<C, double> ? 2 : 4;

/// Number `part` of what four words make.
template <class C>
CORE_RANDOM_HD C unit_number(const PhiloxWords& words, int part) {
  if constexpr (std::is_same_v<C, double>) {
    return unit64(words.pick(2 * part), words.pick(2 * part + 1));
  } else {
    return unit32(words.pick(part));
  }
}

/// 64 bits for an integer of a wide range.
CORE_RANDOM_HD inline std::uint64_t wide_number(const PhiloxWords& words, int part) {
  return static_cast<std::uint64_t>(words.pick(2 * part)) << 32 | words.pick(2 * part + 1);
}

CORE_RANDOM_HD inline float sine_or_cosine(float angle, bool is_sine) {
#ifdef __CUDA_ARCH__
  float sine, cosine;
  __sincosf(angle, &sine, &cosine);
  return is_sine ? sine : cosine;
#else
  return is_sine ? std::sin(angle) : std::cos(angle);
#endif
}

/// Of pi * turns. REQUIRES: 0 <= turns <= 2.
CORE_RANDOM_HD inline double sine_or_cosine_of_pi(double turns, bool is_sine) {
#ifdef __CUDA_ARCH__
  double sine, cosine;
  sincospi(turns, &sine, &cosine);
  return is_sine ? sine : cosine;
#else
  const int quarters = static_cast<int>(2 * turns + 0.5);
  const double rest = std::numbers::pi * (turns - 0.5 * quarters);  // within pi / 4 of zero
  const bool swaps = quarters % 2 == 1;
  const double value = is_sine != swaps ? std::sin(rest) : std::cos(rest);
  const int place = (quarters + (is_sine ? 0 : 1)) % 4;  // the cosine is the sine a quarter on
  return place >= 2 ? -value : value;
#endif
}

/// Standard normal numbers by the Box-Muller rule; `part` of what four words give.
template <class C>
CORE_RANDOM_HD C normal_number(const PhiloxWords& words, int part) {
  if constexpr (std::is_same_v<C, double>) {
    const double radius = std::sqrt(-2.0 * std::log(unit64(words.at[0], words.at[1])));
    return radius * sine_or_cosine_of_pi(2 * unit64(words.at[2], words.at[3]), part == 0);
  } else {
    constexpr float kStep = 0x1p-32F * 6.2831855F;
    const float radius = std::sqrt(-2.0F * std::log(unit32(words.pick(part & ~1))));
    const float angle = std::fma(static_cast<float>(words.pick(part | 1)), kStep, kStep / 2);
    return radius * sine_or_cosine(angle, (part & 1) == 0);
  }
}

/// Limits of a uniform fill of the type T, rounded to it and widened again; `range` is their difference, rounded too.
template <class C>
struct UniformRange {
  C from, to, range;
};

template <class C>
CORE_RANDOM_HD C from_normal(RandomOp op, C drawn, C mean, C std) {
  const C value = std::fma(drawn, std, mean);
  return op == RandomOp::log_normal ? exp_of(value) : value;
}

/// An exponential number is never 0, which would make its quotients infinite or nothing at all: 1 and what lies next
/// to it count as 1 - epsilon / 2.
template <class C>
CORE_RANDOM_HD C exponential_number(C u, C rate) {
  constexpr C kLeast = std::numeric_limits<C>::epsilon() / 2;
  const C logarithm = u >= C(1) - kLeast ? -kLeast : log_of(u);
  return C(-1) / rate * logarithm;
}

template <class C>
CORE_RANDOM_HD C cauchy_number(C u, C median, C sigma) {
  if constexpr (std::is_same_v<C, float>) {  // what __tanf overflows at
    constexpr float kLowest = std::numeric_limits<float>::epsilon(), kHighest = 1 - kLowest;
    u = u > kHighest ? kHighest : u;
    u = u < kLowest ? kLowest : u;
  }
  return std::fma(sigma, tan_of(std::numbers::pi_v<C> * (u - C(0.5))), median);
}

/// Made from one uniform number in (0, 1].
template <class C>
CORE_RANDOM_HD C from_uniform(RandomOp op, C u, C a, C b) {
  switch (op) {
    case RandomOp::bernoulli:
      return u < a ? C(1) : C(0);
    case RandomOp::exponential:
      return exponential_number(u, a);
    case RandomOp::geometric:
      return std::ceil(log_of(u) / log_of_rest(a));
    default:
      return cauchy_number(u, a, b);
  }
}

/// Where dropout finds the number of an element: a thread takes `width` neighbours at a time (8, 4 or 2), or single
/// elements `threads` apart.
struct DropoutPlace {
  std::uint64_t thread, block;  ///< block of four words, counted from the generator's offset
  int part;
};

CORE_RANDOM_HD inline DropoutPlace dropout_place(std::int64_t i, std::int64_t threads, int width) {
  if (width == 1) {
    const std::int64_t in_wave = i % (4 * threads);
    return {static_cast<std::uint64_t>(in_wave % threads), static_cast<std::uint64_t>(i / (4 * threads)),
            static_cast<int>(in_wave / threads)};
  }
  const std::int64_t pack = i / width, round = pack / threads, part = i % width;
  const std::int64_t blocks = width == 8 ? 2 : 1;  // of two neighbours, half the words are left unused
  return {static_cast<std::uint64_t>(pack % threads), static_cast<std::uint64_t>(round * blocks + part / 4),
          static_cast<int>(part % 4)};
}

}  // namespace core::random_arithmetic

#pragma once
// Steps of Adam over f32 moments that became denormal numbers, as those of units that get no gradient do and stay. A
// processor takes 150 cycles and more for each product, quotient or root of one; here their moments are computed in f64
// and rounded to whole units of 2^-149, which gives the same bits, and the step itself finds zeros in their place. In
// an anonymous namespace, as files compiled for different instruction sets must not share it. Thread safety: pure
// functions. Included by optimizer.cpp only. Use: if (has_denormal(m, v) && kept.replace(rules, p, g, m, v)) { step();
// kept.put_back(m, v); }

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

constexpr int kBlock = 16;  // elements: a vector of AVX-512

/// Half a block at once, as so many numbers of f64 fill a vector.
using HalfBlock = Vector<float, kBlock / 2>;
using HalfBits = BitsOf<HalfBlock>;
constexpr float kSmallestNormal = 0x1p-126F;

CORE_INLINE HalfBlock magnitude(const HalfBlock& x) {
  return (HalfBlock)((HalfBits)x & 0x7fffffff);
}
CORE_INLINE HalfBlock where(const HalfBits& mask, const HalfBlock& x) {
  return (HalfBlock)((HalfBits)x & mask);
}
CORE_INLINE bool any_of(const HalfBits& mask) {
  std::int64_t parts[sizeof(mask) / sizeof(std::int64_t)], any = 0;
  std::memcpy(parts, &mask, sizeof mask);
  for (const std::int64_t part : parts) any |= part;
  return any != 0;
}

/// Whether any of sixteen elements of either array is a denormal number.
CORE_INLINE bool has_denormal(const float* a, const float* b) {
#if defined(__AVX512DQ__)
  constexpr int kDenormal = 0x20;
  return (_mm512_fpclass_ps_mask(_mm512_loadu_ps(a), kDenormal) |
          _mm512_fpclass_ps_mask(_mm512_loadu_ps(b), kDenormal)) != 0;
#else
  HalfBits any{};
  for (const float* x : {a, a + kBlock / 2, b, b + kBlock / 2}) {
    const HalfBits bits = (HalfBits)magnitude(load<HalfBlock>(x));
    any |= (bits > 0) & (bits < 0x00800000);
  }
  return any_of(any);
#endif
}

/// The bits of x * y + z, which f64 holds exactly, as f32. REQUIRES: it is at most 2^-125.
CORE_INLINE HalfBits small_sum(const HalfBlock& x, float y, const HalfBlock& z) {
  using Wide = Vector<double, kBlock / 2>;
  constexpr double kUnits = 0x1p149, kNoFraction = 0x1p52;  // numbers from there on have no digits behind the point
  const Wide sum = __builtin_convertvector(x, Wide) * double(y) + __builtin_convertvector(z, Wide);
  const BitsOf<Wide> sign = (BitsOf<Wide>)sum >> 32 & 0x80000000;
  const Wide size = (Wide)((BitsOf<Wide>)sum & INT64_MAX);
  const BitsOf<Wide> whole = (BitsOf<Wide>)(size * kUnits + kNoFraction) & 0x03ffffff;
  return __builtin_convertvector(whole | sign, HalfBits);
}

/// What of a step's numbers counts here, and whether they allow this way.
struct DenormalRules {
  /// As long as a step takes less than half a unit.
  static int units_that_stay(double share) { return static_cast<int>(std::min(0.5 / share - 1e-3, 1e6)); }

  float sign;     ///< of the gradient
  float weight1;  ///< of it in the first moment
  float beta2;
  float shrink;      ///< of the parameter
  float floor;       ///< above this magnitude a parameter does not see a first moment up to 2^-125
  int stays;         ///< without a gradient a first moment of up to so many units of 2^-149 stays as it is
  int square_stays;  ///< a second one
  bool allowed;

  DenormalRules(float grad_sign, double decay, float first_weight, float second_beta, float shrunk, float rate,
                float correction2, float eps)
      : sign(grad_sign),
        weight1(first_weight),
        beta2(second_beta),
        shrink(shrunk),
        floor(std::abs(rate) / eps * 0x1p-98F),
        stays(units_that_stay(first_weight)),
        square_stays(units_that_stay(1 - double(second_beta))),
        // With fewer bits behind the point sums are exact in f64; roots of denormal numbers must vanish beside eps.
        allowed(decay == 0 && weight1 >= 0x1p-6F && weight1 < 0.5F && 0x1p-63F < eps * correction2 * 0x1p-26F) {}
};

/// What denormal moments of sixteen elements become, which a step that finds zeros in their place leaves as zeros.
struct ReplacedMoments {
  std::int64_t at;
  HalfBits mean[2], second[2];  ///< bits, zeros where nothing was replaced

  /// replace() where all such moments are left at so few units of 2^-149 that they stay, as they are where there was no
  /// gradient for long: nothing has to be computed. False, and nothing was replaced, for others.
  CORE_INLINE bool replace_still(const DenormalRules& rules, const float* p, const float* g, float* m, float* v) {
    constexpr int kNormal = 0x00800000;
    HalfBits other{};
    for (int half = 0; half < 2; ++half) {
      const int here = half * kBlock / 2;
      const HalfBits first = load<HalfBits>(m + here), square = load<HalfBits>(v + here), size = first & INT32_MAX;
      const HalfBits tiny = (size > 0) & (size < kNormal), low = (square > 0) & (square < kNormal);
      const HalfBits sees = ~(magnitude(load<HalfBlock>(p + here) * rules.shrink) > rules.floor);
      other |= (tiny & ((size > rules.stays) | sees)) | (low & (square > rules.square_stays)) | (square < 0);
      other |= (tiny | low) & (load<HalfBlock>(g + here) != 0);
      mean[half] = first & tiny;
      second[half] = square & low;
    }
    if (any_of(other)) return false;
    for (int half = 0; half < 2; ++half) {
      const int here = half * kBlock / 2;
      store(m + here, load<HalfBits>(m + here) ^ mean[half]);
      store(v + here, load<HalfBits>(v + here) ^ second[half]);
    }
    return true;
  }

  /// False, and nothing was replaced, where a step with zeros would not do: where a gradient is a denormal number too,
  /// or a parameter so small that it sees its moment.
  CORE_INLINE bool replace(const DenormalRules& rules, const float* p, const float* g, float* m, float* v) {
    HalfBits seen{}, tiny[2], low[2];
    for (int half = 0; half < 2; ++half) {
      const int here = half * kBlock / 2;
      const HalfBlock grad = load<HalfBlock>(g + here), first = load<HalfBlock>(m + here);
      const HalfBlock square = load<HalfBlock>(v + here);
      tiny[half] = (magnitude(grad) <= kSmallestNormal) & (magnitude(first) <= kSmallestNormal);
      low[half] = (square > 0) & (square < kSmallestNormal) & (magnitude(grad) < 0x1p-76F);
      const HalfBlock change = rules.sign < 0 ? -grad - first : grad - first;
      mean[half] = small_sum(where(tiny[half], change), rules.weight1, where(tiny[half], first)) & tiny[half];
      second[half] = small_sum(where(low[half], square), rules.beta2, HalfBlock{}) & low[half];
      seen |= tiny[half] & ((grad != 0) | ~(magnitude(load<HalfBlock>(p + here) * rules.shrink) > rules.floor));
    }
    if (any_of(seen)) return false;
    for (int half = 0; half < 2; ++half) {
      const int here = half * kBlock / 2;
      store(m + here, where(~tiny[half], load<HalfBlock>(m + here)));
      store(v + here, where(~low[half], load<HalfBlock>(v + here)));
    }
    return true;
  }

  /// After the step.
  CORE_INLINE void put_back(float* m, float* v) const {
    for (int half = 0; half < 2; ++half) {
      const int here = half * kBlock / 2;
      store(m + here, load<HalfBits>(m + here) | mean[half]);
      store(v + here, load<HalfBits>(v + here) | second[half]);
    }
  }
};

}  // namespace
}  // namespace core::cpu

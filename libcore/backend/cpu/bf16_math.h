#pragma once
// Functions of short vectors as exact as what is rounded to bf16 needs, for AVX-512: errors are a hundredth of such a
// rounding, in a third of the time of those of vector_math.h. In an anonymous namespace on purpose: see vector.h.
// Thread safety: pure functions. Use: Floats gate = rough_sigmoid(sums);

#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

constexpr __mmask16 kAll = 0xffff;  // GCC 12 takes what is without a mask for uninitialised

/// 2^x: within 3e-6 of it, a hundredth of what rounding to bf16 takes.
CORE_INLINE Floats power_of_two(const Floats& x) {
  constexpr int kLessFloor = 0x09;  // what is left above the whole number below
  const auto rest = (Floats)_mm512_maskz_reduce_ps(kAll, (__m512)x, kLessFloor);
  Floats p = rest * 0.0134266846F + 0.0522424735F;
  p = p * rest + 0.241280205F;
  p = p * rest + 0.693044845F;
  p = p * rest + 1.0F;
  return (Floats)_mm512_maskz_scalef_ps(kAll, (__m512)p, (__m512)x);
}
/// 1 / x of x from 1 on: within a unit of the last place.
CORE_INLINE Floats reciprocal(const Floats& x) {
  const auto near = (Floats)_mm512_maskz_rcp14_ps(kAll, (__m512)x);
  return near * (2.0F - x * near);
}
/// 1 + e^x, whose reciprocal can be taken: not infinite.
CORE_INLINE Floats one_and_exp(const Floats& x) {
  const Floats most = all_as<Floats>(126.0F);
  return 1.0F + power_of_two((Floats)_mm512_maskz_min_ps(kAll, (__m512)most, (__m512)(x * 1.44269504088896341F)));
}
CORE_INLINE Floats rough_sigmoid(const Floats& x) {
  return reciprocal(one_and_exp(-x));
}
CORE_INLINE Floats rough_tanh(const Floats& x) {
  return 1.0F - 2.0F * reciprocal(one_and_exp(x + x));
}

}  // namespace
}  // namespace core::cpu

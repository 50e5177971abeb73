#pragma once
// Functions of sixteen floats at once, for files that are compiled once for each instruction set (CORE_CPU_VARIANT).
// Thread safety: plain values. Use: Floats x; load(x, p); exponential(x);

#include "libcore/backend/cpu/vector16.h"

namespace core::cpu::CORE_CPU_VARIANT {

/// exp(x) to an ulp or two; 0 below the smallest normal number's logarithm, -infinity included. Source: Cephes.
[[gnu::always_inline]] inline void exponential(Floats& x) {
  const Ints tiny = x < -87.3F;
  Floats clamped = x < -87.3F ? Floats{} - 87.3F : x;
  clamped = clamped > 88.7F ? Floats{} + 88.7F : clamped;
  const Floats scaled = clamped * 1.44269504F;
  Ints power = __builtin_convertvector(scaled + (scaled < 0 ? Floats{} - 0.5F : Floats{} + 0.5F), Ints);
  const Floats whole = __builtin_convertvector(power, Floats);
  const Floats r = clamped - whole * 0.693359375F + whole * 2.12194440e-4F;
  Floats y = r * 1.9875691500e-4F + 1.3981999507e-3F;
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * r * r + r + 1.0F;
  power = (power + 127) << 23;
  Floats factor;
  __builtin_memcpy(&factor, &power, sizeof factor);
  y = y * factor;
  x = x != x ? x : tiny ? Floats{} : y;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

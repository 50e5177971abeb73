#pragma once
// Activations of sixteen floats at once, for files that are compiled once for each instruction set (CORE_CPU_VARIANT).
// Thread safety: plain values. Use: Floats x; activate<ImageActivation::relu>(x);

#include "libcore/backend/cpu/vector16_math.h"
#include "libcore/backend/image_table.h"

namespace core::cpu::CORE_CPU_VARIANT {

template <ImageActivation kActivation>
[[gnu::always_inline]] inline void activate(Floats& x) {
  if constexpr (kActivation == ImageActivation::relu || kActivation == ImageActivation::relu6) {
    x = x < 0 ? Floats{} : x;
  }
  if constexpr (kActivation == ImageActivation::relu6) x = x > 6 ? Floats{} + 6.0F : x;
  if constexpr (kActivation == ImageActivation::hardswish) {
    Floats gate = x + 3.0F;
    gate = gate < 0 ? Floats{} : gate > 6 ? Floats{} + 6.0F : gate;
    x = x * gate / 6.0F;
  }
  if constexpr (kActivation == ImageActivation::silu) {
    Floats e = -x;
    exponential(e);
    x = x / (e + 1.0F);
  }
}

}  // namespace core::cpu::CORE_CPU_VARIANT

#pragma once
// Conversion between 32-bit floats and the narrow float types, bit patterns in and out, round to nearest even.
// Thread safety: pure functions. Use: std::uint16_t bits = core::f32_to_bf16(1.5F);

#include <bit>
#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// IEEE binary16. Overflow becomes infinity; NaN stays NaN.
std::uint16_t f32_to_f16(float value);
/// Straight from double, with a single rounding.
std::uint16_t f64_to_f16(double value);
float f16_to_f32(std::uint16_t bits);

/// NaN becomes 0x7fc0, as in PyTorch.
inline std::uint16_t f32_to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Any of the five 8-bit float types. REQUIRES: bit_width(dtype) == 8 and is_floating(dtype), not f4_e2m1fn_x2.
float f8_to_f32(DType dtype, std::uint8_t bits);
/// One 4-bit value (the low four bits) of f4_e2m1.
float f4_to_f32(std::uint8_t bits);

}  // namespace core

#pragma once
// From f32 to the 8-bit float types, as PyTorch rounds: to the nearest, of two the even one. half.h has the way back.
// Thread safety: pure functions. Use: std::uint8_t code = core::f32_to_f8(core::DType::f8_e4m3fn, 0.3F);

#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// What is too large, infinity too, becomes the largest number in f8_e4m3fn, infinity in f8_e5m2 and NaN in the others;
/// NaN stays NaN. f8_e8m0fnu takes the power of two of the size alone. REQUIRES: as f8_to_f32().
std::uint8_t f32_to_f8(DType dtype, float value);

}  // namespace core

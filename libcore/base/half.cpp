#include "libcore/base/half.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/base/float8.h"

namespace core {
namespace {

/// Geometry of an 8-bit float: how wide its fields are and what the topmost codes mean.
struct Geometry {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool ieee_top;     ///< all-ones exponent means infinity and NaN
  bool nan_is_0x80;  ///< negative zero is the only NaN ("fnuz")
};

Geometry geometry(DType dtype) {
  switch (dtype) {
    case DType::f8_e4m3fn:
      return {4, 3, 7, false, false};
    case DType::f8_e5m2:
      return {5, 2, 15, true, false};
    case DType::f8_e4m3fnuz:
      return {4, 3, 8, false, true};
    case DType::f8_e5m2fnuz:
      return {5, 2, 16, false, true};
    default:
      throw Error(ErrorCode::internal, "f8_to_f32 was given no 8-bit float type");
  }
}

/// The bits of a float or double reduced to binary16: `mantissa` has `width` bits behind the implicit one.
std::uint16_t round_to_f16(bool negative, int exponent, std::uint64_t significand, int width) {
  // significand = 1.xxx scaled by 2^width; value = significand * 2^(exponent - width).
  std::uint16_t sign = negative ? 0x8000 : 0;
  if (exponent > 15) return sign | 0x7c00;
  int drop = width - 10;
  if (exponent < -14) drop += -14 - exponent;
  if (drop > width + 2) return sign;
  std::uint64_t kept = significand >> drop;
  std::uint64_t rest = significand & ((std::uint64_t{1} << drop) - 1);
  std::uint64_t half = std::uint64_t{1} << (drop - 1);
  if (rest > half || (rest == half && (kept & 1U))) ++kept;
  // A carry out of the mantissa moves into the exponent by itself.
  std::uint64_t bits = exponent < -14 ? kept : kept + (static_cast<std::uint64_t>(exponent + 14) << 10);
  return static_cast<std::uint16_t>(sign | bits);
}

}  // namespace

std::uint16_t f32_to_f16(float value) {
  return f64_to_f16(static_cast<double>(value));
}

std::uint16_t f64_to_f16(double value) {
  auto bits = std::bit_cast<std::uint64_t>(value);
  bool negative = (bits >> 63) != 0;
  int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  std::uint16_t sign = negative ? 0x8000 : 0;
  if (exponent == 0x7ff)
    return mantissa != 0 ? static_cast<std::uint16_t>(sign | 0x7e00) : static_cast<std::uint16_t>(sign | 0x7c00);
  if (exponent == 0) return sign;  // far below the smallest binary16
  return round_to_f16(negative, exponent - 1023, mantissa | (std::uint64_t{1} << 52), 52);
}

float f16_to_f32(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1fU;
  std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -magnitude : magnitude;
}

float f8_to_f32(DType dtype, std::uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::f8_e8m0fnu) return bits == 0xff ? kNan : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  Geometry g = geometry(dtype);
  if (g.nan_is_0x80 && bits == 0x80) return kNan;
  int exponent = (bits >> g.mantissa_bits) & ((1 << g.exponent_bits) - 1);
  int mantissa = bits & ((1 << g.mantissa_bits) - 1);
  int top = (1 << g.exponent_bits) - 1;
  float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (g.ieee_top && exponent == top) return mantissa != 0 ? kNan : sign * std::numeric_limits<float>::infinity();
  if (dtype == DType::f8_e4m3fn && (bits & 0x7f) == 0x7f) return kNan;
  int significand = exponent == 0 ? mantissa : mantissa + (1 << g.mantissa_bits);
  int scale = (exponent == 0 ? 1 : exponent) - g.bias - g.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(significand), scale);
}

namespace {

/// The bits of the exponent, rounded up from the middle of two powers of two on.
std::uint8_t f32_to_e8m0(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xffU, rest = bits & 0x7fffffU, half = 0x400000U;
  if (exponent == 0xff) return 0xff;
  const bool up = rest > half || (rest == half && exponent != 0);
  return static_cast<std::uint8_t>(exponent + (up ? 1 : 0));
}

}  // namespace

std::uint8_t f32_to_f8(DType dtype, float value) {
  if (dtype == DType::f8_e8m0fnu) return f32_to_e8m0(value);
  const Geometry g = geometry(dtype);
  const int top = (1 << (g.exponent_bits + g.mantissa_bits)) - 1;  // the largest code of a size
  const int infinity = top - (1 << g.mantissa_bits) + 1;           // of ieee_top alone
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const auto nan = static_cast<std::uint8_t>(g.nan_is_0x80 ? 0x80 : sign | top);
  if (std::isnan(value)) return nan;
  const double size = std::abs(static_cast<double>(value));
  const int lowest = 1 - g.bias;
  const int exponent = size == 0 || !std::isfinite(size) ? lowest : std::max(lowest, std::ilogb(size));
  const double steps = std::nearbyint(std::ldexp(size, g.mantissa_bits - exponent));
  // Steps of a whole power of two more carry into the exponent by themselves.
  const double code = std::ldexp(exponent - lowest, g.mantissa_bits) + steps;
  const int first_above = g.ieee_top ? infinity : g.nan_is_0x80 ? top + 1 : top;
  if (code >= first_above) {
    return static_cast<std::uint8_t>(g.ieee_top ? sign | infinity : g.nan_is_0x80 ? nan : sign | (top - 1));
  }
  if (code == 0 && g.nan_is_0x80) return 0;
  return static_cast<std::uint8_t>(sign | static_cast<int>(code));
}

float f4_to_f32(std::uint8_t bits) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  float magnitude = kMagnitudes[bits & 7U];
  return (bits & 8U) != 0 ? -magnitude : magnitude;
}

}  // namespace core

#pragma once
// Numbers of 16 bits that kernels compute with as with float: each is widened where it is read and rounded where it is
// stored, so that a kernel written for T works on f16 and bf16 too. Opmath<T> is what sums are kept in: float for these
// two, T for others. Conversions have no branches, so that loops over them vectorise.
// Included by kernels only, in an anonymous namespace on purpose: see vector.h. Thread safety: plain values. Use:
// Opmath<T> sum = 0; for (...) sum += in[i]; out = static_cast<T>(sum);

#include <bit>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/element_types.h"

namespace core::cpu {
namespace {

/// Exponents of 8 bits by a multiplication, subnormal numbers by a subtraction.
inline float widen_f16(std::uint16_t half) {
  const std::uint32_t word = static_cast<std::uint32_t>(half) << 16, sign = word & 0x80000000U, twice = word + word;
  const float normal = std::bit_cast<float>((twice >> 4) + 0x70000000U) * 0x1p-112F;
  const float subnormal = std::bit_cast<float>((twice >> 17) | 0x3f000000U) - 0.5F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(twice < (1U << 27) ? subnormal : normal));
}

/// To the nearest, of two the even one: an addition of the right power of two rounds. NaN becomes 0x7e00.
inline std::uint16_t narrow_f16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t twice = word + word, exponent = twice & 0xff000000U;
  const float size = std::bit_cast<float>(word & 0x7fffffffU) * 0x1p+112F * 0x1p-110F;
  const float power = std::bit_cast<float>(((exponent < 0x71000000U ? 0x71000000U : exponent) >> 1) + 0x07800000U);
  const auto bits = std::bit_cast<std::uint32_t>(power + size);
  const std::uint32_t rounded = ((bits >> 13) & 0x7c00U) + (bits & 0xfffU);
  return static_cast<std::uint16_t>(((word >> 16) & 0x8000U) | (twice > 0xff000000U ? 0x7e00U : rounded));
}

inline std::uint16_t narrow_bf16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
}

/// `Stored` is Half or BFloat16.
template <class Stored>
class Narrow {
 public:
  Narrow() = default;
  Narrow(float value) : bits_(kIsHalf ? narrow_f16(value) : narrow_bf16(value)) {}    // NOLINT: as a number does
  operator float() const { return kIsHalf ? widen_f16(bits_) : bf16_to_f32(bits_); }  // NOLINT
  Narrow& operator+=(float other) { return *this = Narrow(float(*this) + other); }

 private:
  static constexpr bool kIsHalf = std::is_same_v<Stored, Half>;
  std::uint16_t bits_;
};
using NarrowHalf = Narrow<Half>;
using NarrowBFloat16 = Narrow<BFloat16>;

template <class T>
inline constexpr bool is_narrow = std::is_same_v<T, NarrowHalf> || std::is_same_v<T, NarrowBFloat16>;
template <class T>
using Opmath = std::conditional_t<is_narrow<T>, float, T>;

/// Any number as a T.
template <class T, class Number>
T rounded(Number value) {
  return static_cast<Opmath<T>>(value);
}

}  // namespace
}  // namespace core::cpu

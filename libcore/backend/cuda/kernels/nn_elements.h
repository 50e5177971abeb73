#pragma once
// What the neural-network kernels share: elements of the four floating types and what they are computed in, and fast
// division of positions by sizes. Thread safety: plain values.
// Use: const auto x = widen(in[i]);  out[i] = narrow<T>(x);  SizeDivider plane(h * w);  plane.divide(i).quotient

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cuda/kernels/launch.h"
#include "libcore/backend/element_types.h"

namespace core::CORE_KERNELS {

/// What sums of T run in, and what statistics of T are kept in: double for double, float for the rest.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

CORE_HD inline float widen(float x) {
  return x;
}
CORE_HD inline double widen(double x) {
  return x;
}
CORE_HD inline float widen(Half x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
#else
  return f16_to_f32(x.bits);
#endif
}
CORE_HD inline float widen(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Rounded to nearest even.
template <class T>
CORE_HD T narrow(Computed<T> x) {
  if constexpr (std::is_same_v<T, Half>) {
#ifdef __CUDA_ARCH__
    Half out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
#else
    return {f32_to_f16(x)};
#endif
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fc0};
    return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
  } else {
    return x;
  }
}

/// `data[i]`, or `otherwise` where there is no array.
template <class T>
CORE_HD Computed<T> value_or(const T* data, std::int64_t i, Computed<T> otherwise) {
  return data != nullptr ? Computed<T>(widen(data[i])) : otherwise;
}

template <class T>
CORE_HD T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
CORE_HD T larger(T a, T b) {
  return a < b ? b : a;
}
CORE_HD inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Adds two values.
struct Plus {
  template <class T>
  CORE_HD T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger one; NaN is the largest.
struct Most {
  template <class T>
  CORE_HD T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

/// Division of 0 <= i by one divisor > 0, again and again: by a multiplication where i fits 31 bits. A division by a
/// variable costs a GPU some forty instructions.
class SizeDivider {
 public:
  struct Result {
    std::int64_t quotient, remainder;
  };

  SizeDivider() = default;
  explicit SizeDivider(std::int64_t divisor) : divisor_(divisor < 1 ? 1 : divisor) {
    if (divisor_ >= kLimit) return;
    while ((std::uint64_t{1} << shift_) < static_cast<std::uint64_t>(divisor_)) ++shift_;
    const std::uint64_t power = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(divisor_);
    magic_ = static_cast<std::uint32_t>((power << 32) / static_cast<std::uint64_t>(divisor_) + 1);
  }

  CORE_HD std::int64_t divisor() const { return divisor_; }
  CORE_HD Result divide(std::int64_t i) const {
    if (i >= kLimit || divisor_ >= kLimit) return {i / divisor_, i % divisor_};
    const auto n = static_cast<std::uint32_t>(i);
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(magic_) * n) >> 32);
    const std::uint32_t quotient = (high + n) >> shift_;
    return {quotient, n - quotient * static_cast<std::uint32_t>(divisor_)};
  }

 private:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  std::int64_t divisor_ = 1;
  std::uint32_t magic_ = 1;  // of 1: the quotient is (0 + n) >> 0
  std::uint32_t shift_ = 0;
};

/// A team of one lane.
struct Alone {
  CORE_HD int lane() const { return 0; }
  CORE_HD int size() const { return 1; }
  CORE_HD void sync() const {}
  template <class T, class Op>
  CORE_HD T reduce(T value, Op) const {
    return value;
  }
};

/// body(team, line) for every line; `many`: a lane alone works on each, as for short lines or neighbouring columns.
/// Else a lane has about four elements of a line.
template <class Body>
void for_each_line(std::int64_t lines, std::int64_t length, bool many, const Body& body) {
  if (many) {
    for_each(lines, [=] CORE_BODY(std::int64_t line) { body(Alone(), line); });
  } else {
    for_each_row(lines, divide_up(length, 4), [=] CORE_BODY(const Team& team, std::int64_t line) { body(team, line); });
  }
}

/// Rows of neighbouring elements that are so short that a lane takes one alone.
inline constexpr std::int64_t kShortRow = 16;

/// Calls fill<T>(DType) for the four floating types.
template <class Fill>
void for_floating_types(Fill fill) {
  fill.template operator()<float>(static_cast<std::size_t>(DType::f32));
  fill.template operator()<double>(static_cast<std::size_t>(DType::f64));
  fill.template operator()<Half>(static_cast<std::size_t>(DType::f16));
  fill.template operator()<BFloat16>(static_cast<std::size_t>(DType::bf16));
}

}  // namespace core::CORE_KERNELS

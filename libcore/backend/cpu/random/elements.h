#pragma once
// Drawn numbers as elements of any type, for the fills of the host. Thread safety: pure functions.
// Use: static_cast<Half*>(params.out)[i] = from_number<Half>(0.5);

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "libcore/backend/element_types.h"
#include "libcore/backend/random_table.h"
#include "libcore/base/half.h"

namespace core::cpu {

template <class T>
T from_float(float value) {
  return static_cast<T>(value);
}
template <>
inline Half from_float<Half>(float value) {
  return {f32_to_f16(value)};
}
template <>
inline BFloat16 from_float<BFloat16>(float value) {
  return {f32_to_bf16(value)};
}
template <>
inline bool from_float<bool>(float value) {
  return value != 0.0F;
}

template <class T>
inline constexpr bool kIsHalfType = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// What elements are computed in: double for f64, else float.
template <class T>
using Drawn = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Half types are rounded twice, through f32, as PyTorch's casts do. `Number` is double or an integer.
template <class T, class Number>
T from_number(Number value) {
  if constexpr (kIsHalfType<T> || std::is_same_v<T, bool>) {
    return from_float<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The value in the type that comparisons use.
inline double widened(double value) {
  return value;
}
inline float widened(float value) {
  return value;
}
inline float widened(Half value) {
  return f16_to_f32(value.bits);
}
inline float widened(BFloat16 value) {
  return bf16_to_f32(value.bits);
}

/// Largest number of RandomOp::any_integer: what the type holds exactly.
template <class T>
constexpr std::uint64_t max_integer() {
  if constexpr (std::is_same_v<T, Half>) return 1ULL << 11;
  if constexpr (std::is_same_v<T, BFloat16>) return 1ULL << 8;
  if constexpr (std::is_floating_point_v<T>) return 1ULL << std::numeric_limits<T>::digits;
  if constexpr (std::is_integral_v<T>) {
    return std::min<std::uint64_t>(std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max());
  }
}

/// Stores 0 .. count-1 in the order that arrange(std::span<std::int64_t>) puts them into.
template <class T, class Arrange>
void store_order(const RandomParams& p, Arrange arrange) {
  std::vector<std::int64_t> buffer;
  std::span<std::int64_t> order;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    order = {static_cast<std::int64_t*>(p.out), static_cast<std::size_t>(p.count)};
  } else {
    buffer.resize(static_cast<std::size_t>(p.count));
    order = buffer;
  }
  std::iota(order.begin(), order.end(), 0);
  arrange(order);
  std::transform(buffer.begin(), buffer.end(), static_cast<T*>(p.out), from_number<T, std::int64_t>);
}

}  // namespace core::cpu

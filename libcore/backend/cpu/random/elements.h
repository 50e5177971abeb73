#pragma once
// Storing random numbers into buffers of any compute dtype. Internal to the fills.
// Use: for_dtype(out.dtype, [&]<class T>() { T* to = elements<T>(out); to[0] = from_double<T>(0.5); });

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "libcore/base/error.h"
#include "libcore/base/half.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/scalar.h"

namespace core::detail {

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

/// Half types are rounded twice, through f32, as PyTorch's casts do. `Number` is double or an integer.
template <class T, class Number>
T from_number(Number value) {
  if constexpr (kIsHalfType<T> || std::is_same_v<T, bool>) {
    return from_float<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

inline float to_float(float value) {
  return value;
}
inline float to_float(Half value) {
  return f16_to_f32(value.bits);
}
inline float to_float(BFloat16 value) {
  return bf16_to_f32(value.bits);
}

/// Largest number of random_() without limits: what the type holds exactly.
template <class T>
constexpr std::uint64_t max_integer() {
  if constexpr (std::is_same_v<T, Half>) return 1ULL << 11;
  if constexpr (std::is_same_v<T, BFloat16>) return 1ULL << 8;
  if constexpr (std::is_floating_point_v<T>) return 1ULL << std::numeric_limits<T>::digits;
  if constexpr (std::is_integral_v<T>) {
    return std::min<std::uint64_t>(std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max());
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
  return to_float(value);
}
inline float widened(BFloat16 value) {
  return to_float(value);
}

template <class T>
T* elements(RandomOut out) {
  return static_cast<T*>(out.data);
}

/// Calls body.template operator()<T>() for a floating dtype; Error(not_implemented) for others.
template <class Body>
void for_floating(DType dtype, const char* what, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    case DType::f16:
      return body.template operator()<Half>();
    case DType::bf16:
      return body.template operator()<BFloat16>();
    default:
      break;
  }
  throw Error(ErrorCode::not_implemented,
              std::string("\"") + what + "\" not implemented for '" + scalar_type_name(dtype) + "'");
}

/// The same for integers and bool too.
template <class Body>
void for_dtype(DType dtype, const char* what, Body&& body) {
  switch (dtype) {
    case DType::boolean:
      return body.template operator()<bool>();
    case DType::u8:
      return body.template operator()<std::uint8_t>();
    case DType::i8:
      return body.template operator()<std::int8_t>();
    case DType::i16:
      return body.template operator()<std::int16_t>();
    case DType::i32:
      return body.template operator()<std::int32_t>();
    case DType::i64:
      return body.template operator()<std::int64_t>();
    case DType::u16:
      return body.template operator()<std::uint16_t>();
    case DType::u32:
      return body.template operator()<std::uint32_t>();
    case DType::u64:
      return body.template operator()<std::uint64_t>();
    default:
      return for_floating(dtype, what, body);
  }
}

}  // namespace core::detail

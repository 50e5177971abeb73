#pragma once
// The C++ types of tensor elements: Half and BFloat16 for float16 and bfloat16, the built-in types for the rest.
// Thread safety: plain values. Use: static_assert(core::dtype_of<float> == core::DType::f32);

#include <cstddef>
#include <cstdint>

#include "libcore/base/dtype.h"
#include "libcore/base/half.h"

namespace core {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

/// Bytes of one element, inline for the types that C++ code can hold (the first of the enumeration). REQUIRES: whole
/// bytes.
inline std::size_t element_bytes(DType dtype) {
  constexpr std::uint8_t kBytes[] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8};
  static_assert(static_cast<std::size_t>(DType::f64) + 1 == sizeof kBytes);
  return dtype <= DType::f64 ? kBytes[static_cast<std::size_t>(dtype)] : static_cast<std::size_t>(bit_width(dtype)) / 8;
}

/// dtype_of<float> == DType::f32; only element types that C++ code can hold have one.
template <class T>
inline constexpr DType dtype_of = T::no_such_element_type;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

}  // namespace core

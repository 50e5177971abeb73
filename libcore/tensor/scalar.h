#pragma once
// Scalar: one number handed to an operation, remembering whether it was a bool, an integer or a float, because that
// decides the result's dtype. Half and BFloat16 are the C++ element types of float16 and bfloat16.
// Thread safety: plain value. Use: void f(core::Scalar s); f(2); f(0.5); f(true);

#include <concepts>
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

class Scalar {
 public:
  Scalar() = default;
  Scalar(bool value) : kind_(DType::boolean) { integer_ = value ? 1 : 0; }  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T value) : kind_(DType::i64) {  // NOLINT(google-explicit-constructor)
    integer_ = static_cast<std::int64_t>(value);
  }
  template <std::floating_point T>
  Scalar(T value) : kind_(DType::f64) {  // NOLINT(google-explicit-constructor)
    real_ = static_cast<double>(value);
  }

  /// boolean, i64 or f64.
  DType kind() const { return kind_; }
  bool is_float() const { return kind_ == DType::f64; }
  bool is_bool() const { return kind_ == DType::boolean; }
  double to_double() const { return is_float() ? real_ : static_cast<double>(integer_); }
  std::int64_t to_int() const { return is_float() ? static_cast<std::int64_t>(real_) : integer_; }
  bool to_bool() const { return is_float() ? real_ != 0 : integer_ != 0; }

 private:
  DType kind_ = DType::i64;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
};

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

/// PyTorch's name in messages: "Float", "Double", "Long", "Bool".
const char* scalar_type_name(DType dtype);

}  // namespace core

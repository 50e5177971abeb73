#pragma once
// Scalar: one number handed to an operation, remembering whether it was a bool, an integer or a float, because that
// decides the result's dtype.
// Thread safety: plain value. Use: void f(core::Scalar s); f(2); f(0.5); f(true);

#include <concepts>
#include <cstdint>

#include "libcore/backend/element_types.h"
#include "libcore/base/dtype.h"

namespace core {

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

/// PyTorch's name in messages: "Float", "Double", "Long", "Bool".
const char* scalar_type_name(DType dtype);

}  // namespace core

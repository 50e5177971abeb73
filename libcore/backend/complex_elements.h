#pragma once
// std::complex as the C++ type of the elements of complex64 and complex128, and a pair of halves as that of complex32:
// what data<std::complex<float>>() and from_values() of such numbers need. Thread safety: plain values.
// Use: static_assert(core::dtype_of<std::complex<float>> == core::DType::c64);

#include <complex>

#include "libcore/backend/element_types.h"
#include "libcore/base/dtype.h"

namespace core {

/// An element of complex32.
struct ComplexHalf {
  Half real, imag;
};

template <>
inline constexpr DType dtype_of<ComplexHalf> = DType::c32;
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::c64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::c128;

template <class T>
inline constexpr bool is_complex_number = false;
template <class T>
inline constexpr bool is_complex_number<std::complex<T>> = true;

/// Whether numbers of the type have fractions: f16 to f64, narrower floats, complex ones.
inline bool is_inexact(DType dtype) {
  return is_floating(dtype) || is_complex(dtype);
}
/// The type of the real and the imaginary part: float32 for complex64; a type that is not complex is its own.
inline DType parts_type(DType dtype) {
  return dtype == DType::c128  ? DType::f64
         : dtype == DType::c64 ? DType::f32
         : dtype == DType::c32 ? DType::f16
                               : dtype;
}
/// The complex type whose parts hold the numbers of a real one: complex128 for float64, complex32 for float16,
/// complex64 for all others. A complex type is its own.
inline DType complex_type(DType dtype) {
  return is_complex(dtype) ? dtype : dtype == DType::f64 ? DType::c128 : dtype == DType::f16 ? DType::c32 : DType::c64;
}

}  // namespace core

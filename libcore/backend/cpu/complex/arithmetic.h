#pragma once
// Products and quotients of complex numbers as PyTorch's kernels form them: the formula alone, without C's repair of
// infinite products, and the quotient scaled by the larger part of the divisor (Smith's). complex32 is computed as
// complex64, and every result rounded. Thread safety: pure functions.

#include <cmath>
#include <complex>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/narrow_numbers.h"

namespace core::cpu {
namespace {

inline std::complex<float> widened(const ComplexHalf& z) {
  return {widen_f16(z.real.bits), widen_f16(z.imag.bits)};
}
inline ComplexHalf halved(const std::complex<float>& z) {
  return {{f32_to_f16(z.real())}, {f32_to_f16(z.imag())}};
}

template <class T>
std::complex<T> product(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
std::complex<T> quotient(std::complex<T> x, std::complex<T> y) {
  const T a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0 && d == 0) return {a / std::abs(c), b / std::abs(d)};
    const T ratio = d / c, scale = T(1) / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const T ratio = c / d, scale = T(1) / (c * ratio + d);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}

}  // namespace
}  // namespace core::cpu

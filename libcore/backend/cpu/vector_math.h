#pragma once
// exp, sigmoid and tanh of short vectors: single precision within two units of the last place of the larger of the
// result and 1, which is what gates need. In an anonymous namespace on purpose: see vector.h.
// Thread safety: pure functions. Use: Vector<float> gate = sigmoid_of<float>(sums);

#include <cmath>

#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

/// 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (coefficients of the Cephes library's expf). Results below the
/// smallest normal number are 0.
CORE_INLINE Vector<float> exp_of(Vector<float> x) {
  using V = Vector<float>;
  using Bits = VectorBits<float>;
  const V highest = all_of(89.0f), lowest = all_of(-88.0f), shift = all_of(12582912.0f);  // 1.5 * 2^23
  x = x > highest ? highest : x;
  x = x < lowest ? lowest : x;
  const V shifted = x * 1.44269504088896341f + shift;  // its low bits hold the nearest whole number
  const V whole = shifted - shift;
  const V rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  V p = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * (rest * rest) + rest + 1.0f;
  const Bits exponent = ((Bits)shifted - (Bits)shift + 127) << 23;
  return p * (V)exponent;
}

CORE_INLINE Vector<double> exp_of(const Vector<double>& x) {
  Vector<double> result;
  for (int i = 0; i < kWidth<double>; ++i) result[i] = std::exp(x[i]);
  return result;
}

template <class T>
CORE_INLINE Vector<T> sigmoid_of(const Vector<T>& x) {
  return T(1) / (T(1) + exp_of(-x));
}

template <class T>
CORE_INLINE Vector<T> tanh_of(const Vector<T>& x) {
  return T(1) - T(2) / (T(1) + exp_of(x + x));
}

}  // namespace
}  // namespace core::cpu

#pragma once
// exp, log, sigmoid and tanh of short vectors. In an anonymous namespace on purpose: see vector.h.
// Thread safety: pure functions. Use: Vector<float> gate = sigmoid_of(sums);

#include <cmath>

#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

/// exp: single precision within one unit of the last place, 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]
/// (coefficients of the Cephes library's expf). Results below the smallest normal number are 0, those from 2^127.5 on
/// infinity.
template <class V>
CORE_INLINE V exp_of(const V& from) {
  if constexpr (std::is_same_v<Element<V>, float>) {
    const V highest = all_as<V>(89.0f), lowest = all_as<V>(-88.0f), shift = all_as<V>(12582912.0f);  // 1.5 * 2^23
    V x = from > highest ? highest : from;
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
    const BitsOf<V> exponent = ((BitsOf<V>)shifted - (BitsOf<V>)shift + 127) << 23;
    return p * (V)exponent;
  } else {
    V result;
    for (int i = 0; i < kCountOf<V>; ++i) result[i] = std::exp(from[i]);
    return result;
  }
}

/// log: single precision within two units of the last place (coefficients of the Cephes library's logf). 0 gives
/// -infinity, what is not finite stays, and numbers below the smallest normal one count as it.
template <class V>
CORE_INLINE V log_of(const V& from) {
  if constexpr (std::is_same_v<Element<V>, float>) {
    using Bits = BitsOf<V>;
    const V normal = from < 1.17549435e-38f ? all_as<V>(1.17549435e-38f) : from;
    const Bits above = (Bits)normal - 0x3f3504f3;  // bits of sqrt(1/2), from where on the exponent counts as the next
    const V exponent = __builtin_convertvector(above >> 23, V);
    const V x = (V)((above & 0x7fffff) + 0x3f3504f3) - 1.0f, square = x * x;
    V p = x * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * x + 1.1676998740e-1f;
    p = p * x - 1.2420140846e-1f;
    p = p * x + 1.4249322787e-1f;
    p = p * x - 1.6668057665e-1f;
    p = p * x + 2.0000714765e-1f;
    p = p * x - 2.4999993993e-1f;
    p = p * x + 3.3333331174e-1f;
    const V result = (p * x * square - exponent * 2.12194440e-4f) - square * 0.5f + x + exponent * 0.693359375f;
    const V special = from == 0.0f ? all_as<V>(-HUGE_VALF) : from;
    return (from > 0.0f) & (from < HUGE_VALF) ? result : special;
  } else {
    V result;
    for (int i = 0; i < kCountOf<V>; ++i) result[i] = std::log(from[i]);
    return result;
  }
}

/// Within two units of the last place of 1, which is what gates need.
template <class V>
CORE_INLINE V sigmoid_of(const V& x) {
  return Element<V>(1) / (Element<V>(1) + exp_of(-x));
}

/// Within two units of the last place of 1.
template <class V>
CORE_INLINE V tanh_of(const V& x) {
  return Element<V>(1) - Element<V>(2) / (Element<V>(1) + exp_of(x + x));
}

/// Within two units of the last place of the result, which near 0 takes a polynomial (coefficients of the Cephes
/// library's tanhf).
template <class V>
CORE_INLINE V fine_tanh_of(const V& x) {
  if constexpr (std::is_same_v<Element<V>, float>) {
    const V square = x * x;
    V p = square * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    return square < 0.390625f ? p * square * x + x : tanh_of(x);
  } else {
    V result;
    for (int i = 0; i < kCountOf<V>; ++i) result[i] = std::tanh(x[i]);
    return result;
  }
}

}  // namespace
}  // namespace core::cpu

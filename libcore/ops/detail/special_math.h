#pragma once
// Special functions of numbers, in float64: what special.h computes element by element. Internal to ops.
// Accuracy: 1e-13 of the value or better but where a comment says otherwise. Thread safety: pure functions.
// Use: Tensor y = detail::host_unary(x, detail::erfcx);

namespace core::detail {

/// Hurwitz' zeta function: the sum of (q + k)^-s.
double hurwitz_zeta(double s, double q);

/// exp(x^2) erfc(x).
double erfcx(double x);
/// The normal distribution: its integral from minus infinity, the logarithm of that, and the inverse.
double normal_cdf(double x);
double log_normal_cdf(double x);
double inverse_normal_cdf(double p);

/// The incomplete gamma functions over gamma(a): the lower one, and the upper one. For a of ten thousand and more 1e-11
/// of the value.
double lower_gamma(double a, double x);
double upper_gamma(double a, double x);

/// Modified Bessel functions times exp(-|x|), of order 0 and 1.
double scaled_bessel_i0(double x);
double scaled_bessel_i1(double x);
/// The second kind times exp(x); infinite at 0, NaN below.
double scaled_bessel_k0(double x);
double scaled_bessel_k1(double x);

/// Airy's function Ai; 0 beyond 103.892, NaN at infinity. Below 0, where it swings, 1e-13 as such.
double airy_ai(double x);

}  // namespace core::detail

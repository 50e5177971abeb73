#include "libcore/ops/detail/special_math.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace core::detail {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::pi;
using std::numbers::sqrt2;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

/// The power series of exp(-x) I_n(x), n 0 or 1, whose terms are all positive. REQUIRES: 0 <= x <= 30.
double bessel_i_series(int n, double x) {
  const double quarter = x * x / 4;
  double term = n == 0 ? 1 : x / 2, total = term;
  for (int k = 1; term > total * kEpsilon / 4; ++k) {
    term *= quarter / k / (k + n);
    total += term;
  }
  return total * std::exp(-x);
}

/// The asymptotic series of sqrt(2 x / pi) exp(x) K_n(x) (sign 1), or of sqrt(2 pi x) exp(-x) I_n(x) (sign -1), up to
/// its smallest term. REQUIRES: x > 30.
double bessel_asymptotic(int n, double x, int sign) {
  const double order = 4.0 * n * n;
  double term = 1, total = 1;
  for (int k = 1; k < 60; ++k) {
    const double odd = 2 * k - 1;
    const double next = term * sign * (order - odd * odd) / (8 * k * x);
    if (std::abs(next) >= std::abs(term)) break;
    term = next;
    total += term;
    if (std::abs(term) < kEpsilon / 4) break;
  }
  return total;
}

double scaled_bessel_i(int n, double x) {
  const double size = std::abs(x);
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  const double value =
      size <= 30 ? bessel_i_series(n, size) : bessel_asymptotic(n, size, -1) / std::sqrt(2 * pi * size);
  return n == 1 && x < 0 ? -value : value;
}

/// The two power series of Ai around 0. REQUIRES: -2 <= x <= 1.
double airy_series(double x) {
  constexpr double kValue = 0.355028053887817239260, kSlope = 0.258819403792806798405;  // Ai(0) and -Ai'(0)
  const double cube = x * x * x;
  double even = 1, odd = x, total = kValue - kSlope * x;
  for (int k = 3; std::abs(even) + std::abs(odd) > kEpsilon / 16; k += 3) {
    even *= cube / (k * (k - 1));
    odd *= cube / (k * (k + 1));
    total += kValue * even - kSlope * odd;
  }
  return total;
}

double scaled_bessel_k(int n, double x) {
  if (std::isnan(x) || x < 0) return kNaN;
  if (x == 0) return kInfinity;
  if (x <= 30) return std::cyl_bessel_k(n, x) * std::exp(x);
  return bessel_asymptotic(n, x, 1) * std::sqrt(pi / (2 * x));
}

/// x^a exp(-x) / gamma(a + 1).
double gamma_front(double a, double x) {
  return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
}

/// The power series of the lower function, which converges fast below a + 1.
double lower_gamma_series(double a, double x) {
  double term = 1, total = 1;
  for (double k = a + 1; std::abs(term) > std::abs(total) * kEpsilon / 4; k += 1) {
    term *= x / k;
    total += term;
  }
  return total * gamma_front(a, x);
}

/// The continued fraction of the upper function by Lentz' method, which converges fast above a + 1.
double upper_gamma_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, fraction = d;
  for (int k = 1; k < 100000; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    d = 1 / (d == 0 ? kTiny : d);
    c = c == 0 ? kTiny : c;
    const double factor = d * c;
    fraction *= factor;
    if (std::abs(factor - 1) < kEpsilon) break;
  }
  return fraction * a * gamma_front(a, x);
}

/// The values at the borders of what gamma functions are defined for; NaN where there is something to compute.
double gamma_at_border(double a, double x, double at_zero, double at_infinity) {
  if (a == 0) return x > 0 ? at_infinity : kNaN;
  if (x == 0) return at_zero;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : at_zero;
  return at_infinity;
}
bool is_at_border(double a, double x) {
  return a == 0 || x == 0 || std::isinf(a) || std::isinf(x);
}

/// The root of erfc(y / sqrt(2)) / 2 = p by Newton's method for its logarithm, which comes down from above without
/// overshooting. REQUIRES: 0 < p <= 0.5.
double upper_normal_root(double p) {
  double y = std::sqrt(-2 * std::log(p));
  for (int i = 0; i < 40; ++i) {
    const double tail = std::erfc(y / sqrt2) / 2;
    const double density = std::exp(-y * y / 2) * inv_sqrtpi / sqrt2;
    if (density == 0 || tail == 0) break;
    const double step = (std::log(tail) - std::log(p)) * tail / density;
    y += step;
    if (std::abs(step) <= 1e-15 * std::abs(y)) break;
  }
  return y;
}

/// The root of erf(y / sqrt(2)) = t near 0, where its relative error counts. REQUIRES: |t| < 0.5.
double central_normal_root(double t) {
  double y = t * sqrt2 / (2 * inv_sqrtpi);
  for (int i = 0; i < 20; ++i) {
    const double step = (std::erf(y / sqrt2) - t) / (std::exp(-y * y / 2) * inv_sqrtpi * sqrt2);
    y -= step;
    if (std::abs(step) <= 1e-16 * std::abs(y)) break;
  }
  return y;
}

}  // namespace

/// Euler and Maclaurin's formula behind the first twelve terms.
double hurwitz_zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (s != std::floor(s)) return kNaN;
  }
  constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                   -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
  double total = 0;
  for (int k = 0; k < 12 || q < 12; ++k, q += 1) total += std::pow(q, -s);
  total += std::pow(q, 1 - s) / (s - 1) + 0.5 * std::pow(q, -s);
  double factor = s / 2 * std::pow(q, -s - 1);  // s (s+1) ... / (2j)! times a power of q
  for (int j = 0; j < 10; ++j) {
    total += kBernoulli[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / ((2.0 * j + 3) * (2.0 * j + 4)) / (q * q);
  }
  return total;
}

double erfcx(double x) {
  if (x < 0) return 2 * std::exp(x * x) - erfcx(-x);
  if (std::isnan(x)) return x;
  if (x < 2) return std::exp(x * x) * std::erfc(x);
  if (x > 1e8) return inv_sqrtpi / x;
  double fraction = x;  // x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))
  for (int k = 120; k > 0; --k) fraction = x + k / (2 * fraction);
  return inv_sqrtpi / fraction;
}

double normal_cdf(double x) {
  return std::erfc(-x / sqrt2) / 2;
}
double log_normal_cdf(double x) {
  if (x < -1) return std::log(erfcx(-x / sqrt2) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x / sqrt2) / 2);
}
double inverse_normal_cdf(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0) return -kInfinity;
  if (p == 1) return kInfinity;
  if (std::abs(p - 0.5) < 0.2) return central_normal_root(2 * p - 1);
  return p < 0.5 ? -upper_normal_root(p) : upper_normal_root(1 - p);
}

double lower_gamma(double a, double x) {
  if (!(a >= 0 && x >= 0)) return kNaN;
  if (is_at_border(a, x)) return gamma_at_border(a, x, 0, 1);
  return x < a + 1 ? lower_gamma_series(a, x) : 1 - upper_gamma_fraction(a, x);
}
double upper_gamma(double a, double x) {
  if (!(a >= 0 && x >= 0)) return kNaN;
  if (is_at_border(a, x)) return gamma_at_border(a, x, 1, 0);
  return x < a + 1 ? 1 - lower_gamma_series(a, x) : upper_gamma_fraction(a, x);
}

double scaled_bessel_i0(double x) {
  return scaled_bessel_i(0, x);
}
double scaled_bessel_i1(double x) {
  return scaled_bessel_i(1, x);
}
double scaled_bessel_k0(double x) {
  return scaled_bessel_k(0, x);
}
double scaled_bessel_k1(double x) {
  return scaled_bessel_k(1, x);
}

double airy_ai(double x) {
  if (std::isnan(x) || std::isinf(x)) return kNaN;
  if (x > 103.892) return 0;
  const double size = std::abs(x), root = std::sqrt(size), arc = 2 * size * root / 3;
  if (x > 1) return std::sqrt(x / 3) / pi * std::cyl_bessel_k(1.0 / 3, arc);
  if (x >= -2) return airy_series(x);
  return root / 2 * (std::cyl_bessel_j(1.0 / 3, arc) - std::cyl_neumann(1.0 / 3, arc) / std::numbers::sqrt3);
}

}  // namespace core::detail

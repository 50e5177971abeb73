// Orthogonal polynomials, in the dtype of the result as PyTorch's kernels compute them: by three-term recurrences, and
// Chebyshev's of higher degree between -1 and 1 by cosines.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "libcore/base/error.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/special.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::special {
namespace {

using Degree = std::int64_t;

template <class Real>
Real odd(Degree n) {
  return static_cast<Real>(2 * n + 1);
}
/// `value`, or for an odd degree its negative.
template <class Real>
Real by_parity(Degree n, Real value) {
  return n % 2 == 0 ? value : -value;
}

/// p(k + 1) = 2 x p(k) - p(k - 1) from p(0) = 1 and p(1) = `first`.
template <class Real>
Real chebyshev_recurrence(Degree n, Real twice_x, Real first) {
  Real before = 1, now = first;
  for (Degree k = 2; k <= n && !std::isnan(now); ++k) {
    const Real next = twice_x * now - before;
    before = now;
    now = next;
  }
  return now;
}

// Each kind of Chebyshev's polynomials: the value at 1 and, but for its sign, at -1; its form by the angle acos(x) and
// the degree beyond which that is used; and its first degree.
struct KindT {
  static constexpr Degree kByAngle = 6;
  template <class Real>
  static Real at_one(Degree) {
    return 1;
  }
  template <class Real>
  static Real at_minus_one(Degree n) {
    return by_parity<Real>(n, 1);
  }
  template <class Real>
  static Real of_angle(Degree n, Real x) {
    return std::cos(static_cast<Real>(n) * std::acos(x));
  }
  template <class Real>
  static Real first(Real twice_x) {
    return twice_x / 2;
  }
};
struct KindU {
  static constexpr Degree kByAngle = 8;
  template <class Real>
  static Real at_one(Degree n) {
    return static_cast<Real>(n + 1);
  }
  template <class Real>
  static Real at_minus_one(Degree n) {
    return by_parity(n, static_cast<Real>(n + 1));
  }
  template <class Real>
  static Real of_angle(Degree n, Real x) {
    const Real angle = std::acos(x), steps = static_cast<Real>(n + 1);
    if (std::sin(angle) != 0) return std::sin(steps * angle) / std::sin(angle);
    return steps * std::cos(steps * angle) / x;
  }
  template <class Real>
  static Real first(Real twice_x) {
    return twice_x;
  }
};
struct KindV {
  static constexpr Degree kByAngle = 8;
  template <class Real>
  static Real at_one(Degree) {
    return 1;
  }
  template <class Real>
  static Real at_minus_one(Degree n) {
    return by_parity(n, odd<Real>(n));
  }
  template <class Real>
  static Real of_angle(Degree n, Real x) {
    const Real angle = std::acos(x);
    if (std::sin(angle / 2) == 1) return at_minus_one<Real>(n);
    return std::cos((static_cast<Real>(n) + Real(0.5)) * angle) / std::cos(angle / 2);
  }
  template <class Real>
  static Real first(Real twice_x) {
    return twice_x - 1;
  }
};
struct KindW {
  static constexpr Degree kByAngle = 8;
  template <class Real>
  static Real at_one(Degree n) {
    return odd<Real>(n);
  }
  template <class Real>
  static Real at_minus_one(Degree n) {
    return by_parity<Real>(n, 1);
  }
  template <class Real>
  static Real of_angle(Degree n, Real x) {
    const Real angle = std::acos(x);
    if (std::cos(angle / 2) == 1) return x > 0 ? at_one<Real>(n) : at_minus_one<Real>(n);
    return std::sin((static_cast<Real>(n) + Real(0.5)) * angle) / std::sin(angle / 2);
  }
  template <class Real>
  static Real first(Real twice_x) {
    return twice_x + 1;
  }
};

template <class Kind>
struct Chebyshev {
  template <class Real>
  static Real value(Real x, Degree n) {
    if (n < 0) return 0;
    if (std::abs(x) == 1) return x > 0 ? Kind::template at_one<Real>(n) : Kind::template at_minus_one<Real>(n);
    if (n > Kind::kByAngle && std::abs(x) < 1) return Kind::of_angle(n, x);
    return n == 0 ? Real(1) : chebyshev_recurrence(n, x + x, Kind::first(x + x));
  }
};
/// The same of 2 x - 1, which are orthogonal from 0 to 1.
template <class Kind, Degree kByAngle = 6>
struct Shifted {
  template <class Real>
  static Real value(Real x, Degree n) {
    if (n < 0) return 0;
    if (x == 1) return Kind::template at_one<Real>(n);
    if (x == 0) return Kind::template at_minus_one<Real>(n);
    const Real place = x + x - 1;
    if (n > kByAngle && std::abs(place) < 1) return Kind::of_angle(n, place);
    return n == 0 ? Real(1) : chebyshev_recurrence(n, place + place, Kind::first(place + place));
  }
};

/// From this degree on there is no number.
template <class Real>
constexpr Degree kHermiteLimit = sizeof(Real) == sizeof(float) ? 128 : 512;

/// kTwice: the physicists' (h), else the probabilists' (he).
template <bool kTwice>
struct Hermite {
  template <class Real>
  static Real value(Real x, Degree n) {
    if (n < 0) return 0;
    if (n > kHermiteLimit<Real>) return std::numeric_limits<Real>::quiet_NaN();
    const Real step = kTwice ? x + x : x;
    Real before = 0, now = 1;
    for (Degree k = 0; k < n; ++k) {
      const Real next = step * now - static_cast<Real>(kTwice ? 2 * k : k) * before;
      before = now;
      now = next;
    }
    return now;
  }
};
struct Laguerre {
  template <class Real>
  static Real value(Real x, Degree n) {
    if (n < 0) return 0;
    if (x == 0 || n == 0) return 1;
    Real before = 1, now = 1 - x;
    for (Degree k = 1; k < n && !std::isnan(now); ++k) {
      const Real at = static_cast<Real>(k);
      const Real next = ((at + at + (1 - x)) * now - at * before) / (at + 1);
      before = now;
      now = next;
    }
    return now;
  }
};
struct Legendre {
  template <class Real>
  static Real value(Real x, Degree n) {
    if (n < 0) return 0;
    if (std::abs(x) == 1) return x > 0 ? Real(1) : by_parity<Real>(n, 1);
    if (n == 0) return 1;
    Real before = 1, now = x;
    for (Degree k = 1; k < n && !std::isnan(now); ++k) {
      const Real at = static_cast<Real>(k);
      const Real next = ((at + at + 1) * x * now - at * before) / (at + 1);
      before = now;
      now = next;
    }
    return now;
  }
};

template <class Polynomial, class Real>
Tensor computed(const Tensor& x, const Tensor& n, DType dtype) {
  return detail::host_binary<Real>(
      x, n, dtype, [](Real at, Real degree) { return Polynomial::value(at, static_cast<Degree>(degree)); });
}

template <class Polynomial>
Tensor polynomial(const char* name, const Tensor& x, const Tensor& n, DType common) {
  const DType dtype = is_floating(common) || is_complex(common) ? common : default_dtype();
  if (dtype == DType::f64) return computed<Polynomial, double>(x, n, dtype);
  if (dtype == DType::f32) return computed<Polynomial, float>(x, n, dtype);
  throw Error(ErrorCode::not_implemented,
              std::string("\"") + name + "_cpu\" not implemented for '" + scalar_type_name(dtype) + "'");
}

Tensor number(Scalar value, const Tensor& like) {
  return full({}, value.to_double(), {.dtype = DType::f64, .device = like.device()});
}

}  // namespace

#define CORE_POLYNOMIAL(name, ...)                                             \
  Tensor name(const Tensor& x, const Tensor& n) {                              \
    return polynomial<__VA_ARGS__>(#name, x, n, result_type(x, n));            \
  }                                                                            \
  Tensor name(const Tensor& x, Scalar n) {                                     \
    return polynomial<__VA_ARGS__>(#name, x, number(n, x), result_type(x, n)); \
  }                                                                            \
  Tensor name(Scalar x, const Tensor& n) {                                     \
    return polynomial<__VA_ARGS__>(#name, number(x, n), n, result_type(n, x)); \
  }
CORE_POLYNOMIAL(chebyshev_polynomial_t, Chebyshev<KindT>)
CORE_POLYNOMIAL(chebyshev_polynomial_u, Chebyshev<KindU>)
CORE_POLYNOMIAL(chebyshev_polynomial_v, Chebyshev<KindV>)
CORE_POLYNOMIAL(chebyshev_polynomial_w, Chebyshev<KindW>)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_t, Shifted<KindT>)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_u, Shifted<KindU>)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_v, Shifted<KindV>)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_w, Shifted<KindW, 4>)
CORE_POLYNOMIAL(hermite_polynomial_h, Hermite<true>)
CORE_POLYNOMIAL(hermite_polynomial_he, Hermite<false>)
CORE_POLYNOMIAL(laguerre_polynomial_l, Laguerre)
CORE_POLYNOMIAL(legendre_polynomial_p, Legendre)
#undef CORE_POLYNOMIAL

}  // namespace core::special

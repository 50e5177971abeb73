// Transcendental functions of floats.
#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/backend/cuda/kernels/elementwise.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Functions that training uses all the time.
template <class C>
struct MathUnary {
  UnaryOp op;
  C args[3];

  /// elu's first number is alpha * scale here.
  MathUnary(UnaryOp which, const double* numbers) : op(which) {
    for (int i = 0; i < 3; ++i) args[i] = static_cast<C>(numbers[i]);
    if (op == UnaryOp::elu) args[0] = static_cast<C>(numbers[0] * numbers[1]);
  }

  template <int V>
  CORE_BODY void operator()(const C (&in)[V], C (&out)[V]) const {
#define CORE_CASE(name, expression)                                                      \
  case UnaryOp::name:                                                                    \
    for (int k = 0; k < V; ++k) out[k] = [this](C x) -> C { return expression; }(in[k]); \
    break;
    switch (op) {
      CORE_CASE(exp, std::exp(x))
      CORE_CASE(exp2, std::exp2(x))
      CORE_CASE(expm1, std::expm1(x))
      CORE_CASE(log, std::log(x))
      CORE_CASE(log2, std::log2(x))
      CORE_CASE(log1p, std::log1p(x))
      CORE_CASE(sin, std::sin(x))
      CORE_CASE(cos, std::cos(x))
      CORE_CASE(tanh, std::tanh(x))
      CORE_CASE(sigmoid, C(1) / (C(1) + std::exp(-x)))
      CORE_CASE(silu, x / (C(1) + std::exp(-x)))
      CORE_CASE(erf, std::erf(x))
      CORE_CASE(gelu, x * C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752440))))
      CORE_CASE(gelu_tanh, gelu_tanh(x))
      // Stable for large |x|: min(x, 0) - log(1 + exp(-|x|)).
      CORE_CASE(log_sigmoid, (x < C(0) ? x : C(0)) - std::log1p(std::exp(-std::abs(x))))
      CORE_CASE(elu, x > C(0) ? args[1] * x : args[0] * std::expm1(x * args[2]))
      CORE_CASE(softplus, x * args[0] > args[1] ? x : std::log1p(std::exp(x * args[0])) / args[0])
      default:
        break;
    }
#undef CORE_CASE
  }

  CORE_BODY static C gelu_tanh(C x) {
    const C inner = C(0.79788456080286535588) * (x + C(0.044715) * x * x * x);
    return C(0.5) * x * (C(1) + std::tanh(inner));
  }
};

CORE_BODY inline double log_gamma(double x) {
#ifdef __CUDACC__
  return ::lgamma(x);
#else
  int sign;  // the plain function writes a global one
  return ::lgamma_r(x, &sign);
#endif
}

/// Digamma by recurrence up to 10 and the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18, reflection 6.3.7).
CORE_BODY inline double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    const double whole = std::trunc(x);
    if (x == whole) return std::numeric_limits<double>::quiet_NaN();
    result = -std::numbers::pi / std::tan(std::numbers::pi * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double y = 1 / (x * x);
  const double series = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132)))));
  return result + std::log(x) - 0.5 / x - series;
}

/// Its derivative, the same way (6.4.10, 6.4.12, reflection 6.4.7).
CORE_BODY inline double trigamma(double x) {
  double sign = 1, result = 0;
  if (x < 0.5) {
    const double s = std::sin(std::numbers::pi * x);
    result = -(std::numbers::pi * std::numbers::pi) / (s * s);
    x = 1 - x;
    sign = -1;
  }
  for (; x < 10; x += 1) result += 1 / (x * x);
  const double y = 1 / (x * x);
  result += 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30))));
  return sign * result;
}

/// Rational start (Giles 2010), then Newton steps in double.
CORE_BODY inline double inverse_erf(double y) {
  if (!(std::abs(y) < 1)) {
    const bool edge = std::abs(y) == 1;
    return edge ? std::copysign(std::numeric_limits<double>::infinity(), y) : std::numeric_limits<double>::quiet_NaN();
  }
  const double w = -std::log((1 - y) * (1 + y));
  const double a = 2 / (std::numbers::pi * 0.147) - w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(a * a + w / 0.147) - a), y);
  for (int i = 0; i < 3; ++i) x -= (std::erf(x) - y) * std::exp(x * x) * (0.5 / std::numbers::inv_sqrtpi);
  return x;
}

/// The rest, one element a thread.
template <class C>
struct RareUnary {
  UnaryOp op;

  CORE_BODY void operator()(const C (&in)[1], C (&out)[1]) const { out[0] = value(in[0]); }
  CORE_BODY C value(C x) const {
    switch (op) {
      case UnaryOp::log10:
        return std::log10(x);
      case UnaryOp::tan:
        return std::tan(x);
      case UnaryOp::asin:
        return std::asin(x);
      case UnaryOp::acos:
        return std::acos(x);
      case UnaryOp::atan:
        return std::atan(x);
      case UnaryOp::sinh:
        return std::sinh(x);
      case UnaryOp::cosh:
        return std::cosh(x);
      case UnaryOp::erfinv:
        return static_cast<C>(inverse_erf(static_cast<double>(x)));
      case UnaryOp::lgamma:
        return static_cast<C>(log_gamma(static_cast<double>(x)));
      case UnaryOp::digamma:
        return static_cast<C>(digamma(static_cast<double>(x)));
      default:
        return static_cast<C>(trigamma(static_cast<double>(x)));
    }
  }
};

template <class T, UnaryOp kOp>
void math_kernel(const UnaryParams& p) {
  run_unary<T, T>(p, MathUnary<Computed<T>>(kOp, p.args));
}
template <class T, UnaryOp kOp>
void rare_kernel(const UnaryParams& p) {
  run_unary<T, T, Packing::no>(p, RareUnary<Computed<T>>{kOp});
}

template <class T, UnaryOp... kOps>
void set_math(ElementwiseTable& table) {
  (table.unary.set(kOps, dtype_of<T>, math_kernel<T, kOps>), ...);
}
template <class T, UnaryOp... kOps>
void set_rare(ElementwiseTable& table) {
  (table.unary.set(kOps, dtype_of<T>, rare_kernel<T, kOps>), ...);
}

template <class T>
void fill(ElementwiseTable& table) {
  using U = UnaryOp;
  set_math<T, U::exp, U::exp2, U::expm1, U::log, U::log2, U::log1p, U::sin, U::cos, U::tanh, U::sigmoid, U::silu,
           U::erf, U::gelu, U::gelu_tanh, U::log_sigmoid, U::elu, U::softplus>(table);
  set_rare<T, U::log10, U::tan, U::asin, U::acos, U::atan, U::sinh, U::cosh, U::erfinv, U::lgamma, U::digamma,
           U::trigamma>(table);
}

}  // namespace

void fill_elementwise_math(ElementwiseTable& table) {
  fill<Half>(table);
  fill<BFloat16>(table);
  fill<float>(table);
  fill<double>(table);
}

}  // namespace core::CORE_KERNELS

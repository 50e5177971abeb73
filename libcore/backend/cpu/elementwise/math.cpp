// Transcendental functions on floats. Compiled once per instruction set; the simd declarations let the compiler use the
// C library's vector versions (within 4 units of the last place).
#include <cmath>
#include <limits>
#include <type_traits>

#include "libcore/backend/cpu/elementwise/rows.h"
#include "libcore/backend/cpu/variants.h"

#define CORE_SIMD_DECLARE(name)                                                    \
  __attribute__((simd("notinbranch"), const)) float name##f(float) noexcept(true); \
  __attribute__((simd("notinbranch"), const)) double name(double) noexcept(true);
#if defined(__x86_64__) && !defined(CKPT_NO_VECTOR_MATH)
extern "C" {
CORE_SIMD_DECLARE(exp)
CORE_SIMD_DECLARE(log)
CORE_SIMD_DECLARE(sin)
CORE_SIMD_DECLARE(cos)
CORE_SIMD_DECLARE(tan)
CORE_SIMD_DECLARE(asin)
CORE_SIMD_DECLARE(acos)
CORE_SIMD_DECLARE(atan)
CORE_SIMD_DECLARE(sinh)
CORE_SIMD_DECLARE(cosh)
CORE_SIMD_DECLARE(tanh)
CORE_SIMD_DECLARE(erf)
CORE_SIMD_DECLARE(exp2)
CORE_SIMD_DECLARE(expm1)
CORE_SIMD_DECLARE(log2)
CORE_SIMD_DECLARE(log10)
CORE_SIMD_DECLARE(log1p)
}
#endif
#undef CORE_SIMD_DECLARE

namespace core::cpu {
namespace {

#define CORE_MATH(Name, function)                                \
  struct Name : NoArgs {                                         \
    using NoArgs::NoArgs;                                        \
    float operator()(float x) const { return ::function##f(x); } \
    double operator()(double x) const { return ::function(x); }  \
  };
CORE_MATH(Exp, exp)
CORE_MATH(Log, log)
CORE_MATH(Sin, sin)
CORE_MATH(Cos, cos)
CORE_MATH(Tan, tan)
CORE_MATH(Asin, asin)
CORE_MATH(Acos, acos)
CORE_MATH(Atan, atan)
CORE_MATH(Sinh, sinh)
CORE_MATH(Cosh, cosh)
CORE_MATH(Tanh, tanh)
CORE_MATH(Erf, erf)
CORE_MATH(Exp2, exp2)
CORE_MATH(Expm1, expm1)
CORE_MATH(Log2, log2)
CORE_MATH(Log10, log10)
CORE_MATH(Log1p, log1p)
#undef CORE_MATH

const Exp kExp(nullptr);
const Erf kErf(nullptr);
const Log1p kLog1p(nullptr);
const Expm1 kExpm1(nullptr);

struct Sigmoid : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    return T(1) / (T(1) + kExp(-x));
  }
};
struct Silu : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    return x / (T(1) + kExp(-x));
  }
};
struct Gelu : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    return x * T(0.5) * (T(1) + kErf(x * T(0.70710678118654752440)));
  }
};
/// x / 2 * (1 + tanh(u)) as x / (1 + exp(-2u)), which is a third of the work and loses no digits where tanh is near -1.
struct GeluTanh : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return x / (T(1) + kExp(T(-2) * inner));
  }
};
/// Stable for large |x|: min(x, 0) - log(1 + exp(-|x|)).
struct LogSigmoid : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    return (x < T(0) ? x : T(0)) - kLog1p(kExp(-std::abs(x)));
  }
};
struct Elu {
  double alpha, scale, input_scale;
  explicit Elu(const double* args) : alpha(args[0]), scale(args[1]), input_scale(args[2]) {}
  template <class T>
  T operator()(T x) const {
    T below = static_cast<T>(alpha * scale) * kExpm1(x * static_cast<T>(input_scale));
    return x > T(0) ? static_cast<T>(scale) * x : below;
  }
};
struct Softplus {
  double beta, threshold;
  explicit Softplus(const double* args) : beta(args[0]), threshold(args[1]) {}
  template <class T>
  T operator()(T x) const {
    T scaled = x * static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? x : kLog1p(kExp(scaled)) / static_cast<T>(beta);
  }
};

/// Digamma by recurrence up to 10 and the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18, reflection 6.3.7).
struct Digamma : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T in) const {
    double x = in;
    if (x == 0) return std::copysign(std::numeric_limits<T>::infinity(), -in);
    double result = 0;
    if (x < 0) {
      if (x == std::trunc(x)) return std::numeric_limits<T>::quiet_NaN();
      double whole;
      result = -M_PI / std::tan(M_PI * std::modf(x, &whole));
      x = 1 - x;
    }
    for (; x < 10; x += 1) result -= 1 / x;
    double y = 1 / (x * x);
    double series = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132)))));
    return static_cast<T>(result + std::log(x) - 0.5 / x - series);
  }
};
/// Its derivative, the same way (6.4.10, 6.4.12, reflection 6.4.7).
struct Trigamma : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T in) const {
    double x = in, sign = 1, result = 0;
    if (x < 0.5) {
      double s = std::sin(M_PI * x);
      result = -(M_PI * M_PI) / (s * s);
      x = 1 - x;
      sign = -1;
    }
    for (; x < 10; x += 1) result += 1 / (x * x);
    double y = 1 / (x * x);
    result += 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30))));
    return static_cast<T>(sign * result);
  }
};
struct Lgamma : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T x) const {
    int sign;
    return static_cast<T>(::lgamma_r(static_cast<double>(x), &sign));
  }
};
/// Rational start (Giles 2010), then two Newton steps in double.
struct Erfinv : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T in) const {
    double y = in;
    if (!(std::abs(y) < 1)) {
      bool edge = std::abs(y) == 1;
      return edge ? static_cast<T>(std::copysign(HUGE_VAL, y)) : std::numeric_limits<T>::quiet_NaN();
    }
    double w = -std::log((1 - y) * (1 + y));
    double a = 2 / (M_PI * 0.147) - w / 2;
    double x = std::copysign(std::sqrt(std::sqrt(a * a + w / 0.147) - a), y);
    for (int i = 0; i < 3; ++i) x -= (std::erf(x) - y) * std::exp(x * x) / M_2_SQRTPI;
    return static_cast<T>(x);
  }
};

struct Pow : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    return std::pow(a, b);
  }
};
struct Atan2 : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};

template <class T>
void fill_math_of(ElementwiseTable& table) {
  set_unary<Exp, T>(table, UnaryOp::exp);
  set_unary<Exp2, T>(table, UnaryOp::exp2);
  set_unary<Expm1, T>(table, UnaryOp::expm1);
  set_unary<Log, T>(table, UnaryOp::log);
  set_unary<Log2, T>(table, UnaryOp::log2);
  set_unary<Log10, T>(table, UnaryOp::log10);
  set_unary<Log1p, T>(table, UnaryOp::log1p);
  set_unary<Sin, T>(table, UnaryOp::sin);
  set_unary<Cos, T>(table, UnaryOp::cos);
  set_unary<Tan, T>(table, UnaryOp::tan);
  set_unary<Asin, T>(table, UnaryOp::asin);
  set_unary<Acos, T>(table, UnaryOp::acos);
  set_unary<Atan, T>(table, UnaryOp::atan);
  set_unary<Sinh, T>(table, UnaryOp::sinh);
  set_unary<Cosh, T>(table, UnaryOp::cosh);
  set_unary<Tanh, T>(table, UnaryOp::tanh);
  set_unary<Sigmoid, T>(table, UnaryOp::sigmoid);
  set_unary<Erf, T>(table, UnaryOp::erf);
  set_unary<Erfinv, T>(table, UnaryOp::erfinv);
  set_unary<Lgamma, T>(table, UnaryOp::lgamma);
  set_unary<Digamma, T>(table, UnaryOp::digamma);
  set_unary<Trigamma, T>(table, UnaryOp::trigamma);
  set_unary<Gelu, T>(table, UnaryOp::gelu);
  set_unary<GeluTanh, T>(table, UnaryOp::gelu_tanh);
  set_unary<Silu, T>(table, UnaryOp::silu);
  set_unary<LogSigmoid, T>(table, UnaryOp::log_sigmoid);
  set_unary<Elu, T>(table, UnaryOp::elu);
  set_unary<Softplus, T>(table, UnaryOp::softplus);
  set_binary<Pow, T>(table, BinaryOp::pow);
  set_binary<Atan2, T>(table, BinaryOp::atan2);
}

}  // namespace

void CORE_CPU_VARIANT::fill_float_math(ElementwiseTable& table) {
  fill_math_of<float>(table);
  fill_math_of<double>(table);
}

}  // namespace core::cpu

// Arithmetic on floats. Compiled once per instruction set (CORE_CPU_VARIANT names the namespace); -ffp-contract=off
// keeps every operation rounded on its own, as PyTorch's are.
#include <cmath>

#include "libcore/backend/cpu/elementwise/rows.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

#define CORE_UNARY(Name, expression) \
  struct Name : NoArgs {             \
    using NoArgs::NoArgs;            \
    template <class T>               \
    T operator()(T x) const {        \
      return expression;             \
    }                                \
  };
CORE_UNARY(Neg, -x)
CORE_UNARY(Abs, std::abs(x))
CORE_UNARY(Sign, static_cast<T>((T(0) < x) - (x < T(0))))
CORE_UNARY(Floor, std::floor(x))
CORE_UNARY(Ceil, std::ceil(x))
CORE_UNARY(Round, std::nearbyint(x))
CORE_UNARY(Trunc, std::trunc(x))
CORE_UNARY(Frac, x - std::trunc(x))
CORE_UNARY(Square, x* x)
CORE_UNARY(Reciprocal, T(1) / x)
CORE_UNARY(Sqrt, std::sqrt(x))
CORE_UNARY(Rsqrt, T(1) / std::sqrt(x))
CORE_UNARY(Relu, x < T(0) ? T(0) : x)
#undef CORE_UNARY

#define CORE_BINARY(Name, expression) \
  struct Name : NoArgs {              \
    using NoArgs::NoArgs;             \
    template <class T>                \
    T operator()(T a, T b) const {    \
      return expression;              \
    }                                 \
  };
CORE_BINARY(Mul, a* b)
CORE_BINARY(Div, a / b)
CORE_BINARY(Maximum, a != a || a > b ? a : b)
CORE_BINARY(Minimum, a != a || a < b ? a : b)
CORE_BINARY(DivTrunc, std::trunc(a / b))
CORE_BINARY(ReluBackward, b <= T(0) ? T(0) : a)
CORE_BINARY(SigmoidBackward, a*((T(1) - b) * b))
CORE_BINARY(TanhBackward, a*(T(1) - b * b))
#undef CORE_BINARY

/// a + alpha * b, rounded once where the processor does that at once, as PyTorch's.
template <class T>
T fused(T a, T alpha, T b) {
#ifdef __FMA__
  return std::fma(alpha, b, a);
#else
  return a + alpha * b;
#endif
}
struct Add {
  double alpha;
  explicit Add(const double* args) : alpha(args[0]) {}
  template <class T>
  T operator()(T a, T b) const {
    return fused(a, static_cast<T>(alpha), b);
  }
};
struct Sub {
  double alpha;
  explicit Sub(const double* args) : alpha(args[0]) {}
  template <class T>
  T operator()(T a, T b) const {
    return fused(a, -static_cast<T>(alpha), b);
  }
};
struct LeakyRelu {
  double slope;
  explicit LeakyRelu(const double* args) : slope(args[0]) {}
  template <class T>
  T operator()(T x) const {
    return x > T(0) ? x : x * static_cast<T>(slope);
  }
};
struct LeakyReluBackward : LeakyRelu {
  using LeakyRelu::LeakyRelu;
  template <class T>
  T operator()(T grad, T x) const {
    return x > T(0) ? grad : grad * static_cast<T>(slope);
  }
};
struct Clamp {
  double low, high;
  explicit Clamp(const double* args) : low(args[0]), high(args[1]) {}
  template <class T>
  T operator()(T x) const {
    T raised = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return raised > static_cast<T>(high) ? static_cast<T>(high) : raised;
  }
};
struct ClampBackward : Clamp {
  using Clamp::Clamp;
  template <class T>
  T operator()(T grad, T x) const {
    return x > static_cast<T>(low) && x < static_cast<T>(high) ? grad : T(0);
  }
};
struct Threshold {
  double limit, value;
  explicit Threshold(const double* args) : limit(args[0]), value(args[1]) {}
  template <class T>
  T operator()(T x) const {
    return x <= static_cast<T>(limit) ? static_cast<T>(value) : x;
  }
};
struct NanToNum {
  double nan, high, low;
  explicit NanToNum(const double* args) : nan(args[0]), high(args[1]), low(args[2]) {}
  template <class T>
  T operator()(T x) const {
    if (x != x) return static_cast<T>(nan);
    if (std::isinf(x)) return static_cast<T>(x > 0 ? high : low);
    return x;
  }
};
struct Remainder : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    T rest = std::fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
  }
};
struct Fmod : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    return std::fmod(a, b);
  }
};
/// Python's floor division: exact where a plain floor(a / b) would round up.
struct DivFloor : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a / b;
    T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= T(1);
    if (quotient == 0) return std::copysign(T(0), a / b);
    T floor = std::floor(quotient);
    return quotient - floor > T(0.5) ? floor + T(1) : floor;
  }
};

template <class T>
void fill_arithmetic_of(ElementwiseTable& table) {
  set_unary<Neg, T>(table, UnaryOp::neg);
  set_unary<Abs, T>(table, UnaryOp::abs);
  set_unary<Sign, T>(table, UnaryOp::sign);
  set_unary<Floor, T>(table, UnaryOp::floor);
  set_unary<Ceil, T>(table, UnaryOp::ceil);
  set_unary<Round, T>(table, UnaryOp::round);
  set_unary<Trunc, T>(table, UnaryOp::trunc);
  set_unary<Frac, T>(table, UnaryOp::frac);
  set_unary<Square, T>(table, UnaryOp::square);
  set_unary<Reciprocal, T>(table, UnaryOp::reciprocal);
  set_unary<Sqrt, T>(table, UnaryOp::sqrt);
  set_unary<Rsqrt, T>(table, UnaryOp::rsqrt);
  set_unary<Relu, T>(table, UnaryOp::relu);
  set_unary<LeakyRelu, T>(table, UnaryOp::leaky_relu);
  set_unary<Clamp, T>(table, UnaryOp::clamp);
  set_unary<Threshold, T>(table, UnaryOp::threshold);
  set_unary<NanToNum, T>(table, UnaryOp::nan_to_num);
  set_binary<Add, T>(table, BinaryOp::add);
  set_binary<Sub, T>(table, BinaryOp::sub);
  set_binary<Mul, T>(table, BinaryOp::mul);
  set_binary<Div, T>(table, BinaryOp::div);
  set_binary<DivFloor, T>(table, BinaryOp::div_floor);
  set_binary<DivTrunc, T>(table, BinaryOp::div_trunc);
  set_binary<Maximum, T>(table, BinaryOp::maximum);
  set_binary<Minimum, T>(table, BinaryOp::minimum);
  set_binary<Remainder, T>(table, BinaryOp::remainder);
  set_binary<Fmod, T>(table, BinaryOp::fmod);
  set_binary<ReluBackward, T>(table, BinaryOp::relu_backward);
  set_binary<SigmoidBackward, T>(table, BinaryOp::sigmoid_backward);
  set_binary<TanhBackward, T>(table, BinaryOp::tanh_backward);
  set_binary<LeakyReluBackward, T>(table, BinaryOp::leaky_relu_backward);
  set_binary<ClampBackward, T>(table, BinaryOp::clamp_backward);
}

}  // namespace

void CORE_CPU_VARIANT::fill_float_arithmetic(ElementwiseTable& table) {
  fill_arithmetic_of<float>(table);
  fill_arithmetic_of<double>(table);
}

}  // namespace core::cpu

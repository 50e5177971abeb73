// Arithmetic on floats.
#include <cmath>
#include <cstdint>

#include "libcore/backend/cuda/kernels/elementwise.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// C: float or double. The numbers of an operation are rounded to C on the host.
template <class C>
struct FloatUnary {
  UnaryOp op;
  C args[3];

  FloatUnary(UnaryOp which, const double* numbers) : op(which) {
    for (int i = 0; i < 3; ++i) args[i] = static_cast<C>(numbers[i]);
  }

  template <int V>
  CORE_BODY void operator()(const C (&in)[V], C (&out)[V]) const {
#define CORE_CASE(name, expression)                                                      \
  case UnaryOp::name:                                                                    \
    for (int k = 0; k < V; ++k) out[k] = [this](C x) -> C { return expression; }(in[k]); \
    break;
    switch (op) {
      CORE_CASE(neg, -x)
      CORE_CASE(abs, std::abs(x))
      CORE_CASE(sign, static_cast<C>((C(0) < x) - (x < C(0))))
      CORE_CASE(floor, std::floor(x))
      CORE_CASE(ceil, std::ceil(x))
      CORE_CASE(round, std::nearbyint(x))
      CORE_CASE(trunc, std::trunc(x))
      CORE_CASE(frac, x - std::trunc(x))
      CORE_CASE(square, x * x)
      CORE_CASE(reciprocal, C(1) / x)
      CORE_CASE(sqrt, std::sqrt(x))
      CORE_CASE(rsqrt, C(1) / std::sqrt(x))
      CORE_CASE(relu, x < C(0) ? C(0) : x)
      CORE_CASE(leaky_relu, x > C(0) ? x : x * args[0])
      CORE_CASE(clamp, clamped(x))
      CORE_CASE(threshold, x <= args[0] ? args[1] : x)
      CORE_CASE(nan_to_num, x != x ? args[0] : std::isinf(x) ? (x > C(0) ? args[1] : args[2]) : x)
      default:
        break;
    }
#undef CORE_CASE
  }

  CORE_BODY C clamped(C x) const {
    const C raised = x < args[0] ? args[0] : x;
    return raised > args[1] ? args[1] : raised;
  }
};

template <class C>
struct FloatBinary {
  BinaryOp op;
  C args[3];

  FloatBinary(BinaryOp which, const double* numbers) : op(which) {
    for (int i = 0; i < 3; ++i) args[i] = static_cast<C>(numbers[i]);
  }

  template <int V>
  CORE_BODY void operator()(const C (&first)[V], const C (&second)[V], C (&out)[V]) const {
#define CORE_CASE(name, expression)                                                                         \
  case BinaryOp::name:                                                                                      \
    for (int k = 0; k < V; ++k) out[k] = [this](C a, C b) -> C { return expression; }(first[k], second[k]); \
    break;
    switch (op) {
      CORE_CASE(add, a + args[0] * b)
      CORE_CASE(sub, a - args[0] * b)
      CORE_CASE(mul, a * b)
      CORE_CASE(div, a / b)
      CORE_CASE(div_trunc, std::trunc(a / b))
      CORE_CASE(maximum, a != a || a > b ? a : b)
      CORE_CASE(minimum, a != a || a < b ? a : b)
      CORE_CASE(relu_backward, b <= C(0) ? C(0) : a)
      CORE_CASE(sigmoid_backward, a * ((C(1) - b) * b))
      CORE_CASE(tanh_backward, a * (C(1) - b * b))
      CORE_CASE(leaky_relu_backward, b > C(0) ? a : a * args[0])
      CORE_CASE(clamp_backward, b > args[0] && b < args[1] ? a : C(0))
      default:
        break;
    }
#undef CORE_CASE
  }
};

/// What takes longer than the memory does.
template <class C>
struct SlowBinary {
  BinaryOp op;

  SlowBinary(BinaryOp which, const double*) : op(which) {}

  CORE_BODY void operator()(const C (&a)[1], const C (&b)[1], C (&out)[1]) const {
    switch (op) {
      case BinaryOp::pow:
        out[0] = std::pow(a[0], b[0]);
        break;
      case BinaryOp::atan2:
        out[0] = std::atan2(a[0], b[0]);
        break;
      default:
        out[0] = by_rest(a[0], b[0]);
    }
  }

  CORE_BODY C by_rest(C a, C b) const {
    const C rest = std::fmod(a, b);
    const bool differs = rest != C(0) && (b < C(0)) != (rest < C(0));
    if (op == BinaryOp::fmod) return rest;
    if (op == BinaryOp::remainder) return differs ? rest + b : rest;
    // Python's floor division: exact where a plain floor(a / b) would round up.
    if (b == C(0)) return a / b;
    C quotient = (a - rest) / b;
    if (differs) quotient -= C(1);
    if (quotient == C(0)) return std::copysign(C(0), a / b);
    const C floor = std::floor(quotient);
    return quotient - floor > C(0.5) ? floor + C(1) : floor;
  }
};

template <class T, UnaryOp kOp>
void unary_kernel(const UnaryParams& p) {
  run_unary<T, T>(p, FloatUnary<Computed<T>>(kOp, p.args));
}
template <class T, BinaryOp kOp>
void binary_kernel(const BinaryParams& p) {
  run_binary<T, T>(p, FloatBinary<Computed<T>>(kOp, p.args));
}
template <class T, BinaryOp kOp>
void slow_kernel(const BinaryParams& p) {
  run_binary<T, T, Packing::no>(p, SlowBinary<Computed<T>>(kOp, p.args));
}

template <class T, UnaryOp... kOps>
void set_unary(ElementwiseTable& table) {
  (table.unary.set(kOps, dtype_of<T>, unary_kernel<T, kOps>), ...);
}
template <class T, BinaryOp... kOps>
void set_binary(ElementwiseTable& table) {
  (table.binary.set(kOps, dtype_of<T>, binary_kernel<T, kOps>), ...);
}
template <class T, BinaryOp... kOps>
void set_slow(ElementwiseTable& table) {
  (table.binary.set(kOps, dtype_of<T>, slow_kernel<T, kOps>), ...);
}

template <class T>
void fill(ElementwiseTable& table) {
  using U = UnaryOp;
  using B = BinaryOp;
  set_unary<T, U::neg, U::abs, U::sign, U::floor, U::ceil, U::round, U::trunc, U::frac, U::square, U::reciprocal,
            U::sqrt, U::rsqrt, U::relu, U::leaky_relu, U::clamp, U::threshold, U::nan_to_num>(table);
  set_binary<T, B::add, B::sub, B::mul, B::div, B::div_trunc, B::maximum, B::minimum, B::relu_backward,
             B::sigmoid_backward, B::tanh_backward, B::leaky_relu_backward, B::clamp_backward>(table);
  set_slow<T, B::pow, B::atan2, B::fmod, B::remainder, B::div_floor>(table);
}

}  // namespace

void fill_elementwise_float(ElementwiseTable& table) {
  fill<Half>(table);
  fill<BFloat16>(table);
  fill<float>(table);
  fill<double>(table);
}

}  // namespace core::CORE_KERNELS

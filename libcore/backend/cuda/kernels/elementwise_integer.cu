// Arithmetic on integers (wrapping, as PyTorch's) and on bool, whose elements are bytes of 0 and 1.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elementwise.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Computes in the unsigned type of at least 32 bits, so that overflow wraps instead of being undefined.
template <class T>
using Wrap = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

template <class T>
CORE_HD bool is_negative(T x) {
  if constexpr (std::is_signed_v<T>) return x < T(0);
  return false;
}

template <class T>
struct IntegerUnary {
  using W = Wrap<T>;
  UnaryOp op;
  double low, high;

  template <int V>
  CORE_BODY void operator()(const T (&in)[V], T (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = value(in[k]);
  }
  CORE_BODY T value(T x) const {
    switch (op) {
      case UnaryOp::neg:
        return static_cast<T>(W(0) - static_cast<W>(x));
      case UnaryOp::abs:
        return static_cast<T>(is_negative(x) ? W(0) - static_cast<W>(x) : static_cast<W>(x));
      case UnaryOp::sign:
        return static_cast<T>((x != T(0)) - 2 * is_negative(x));
      case UnaryOp::square:
        return static_cast<T>(static_cast<W>(x) * static_cast<W>(x));
      case UnaryOp::relu:
        return is_negative(x) ? T(0) : x;
      case UnaryOp::bitwise_not:
        return static_cast<T>(~x);
      case UnaryOp::clamp:
        return clamped(x);
      default:  // floor, ceil, round, trunc
        return x;
    }
  }
  CORE_BODY T clamped(T x) const {
    const double raised = static_cast<double>(x) < low ? low : static_cast<double>(x);
    if (raised == static_cast<double>(x) && !(raised > high)) return x;
    return static_cast<T>(raised > high ? high : raised);
  }
};

template <class T>
struct IntegerBinary {
  using W = Wrap<T>;
  BinaryOp op;
  W alpha;

  template <int V>
  CORE_BODY void operator()(const T (&a)[V], const T (&b)[V], T (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = value(a[k], b[k]);
  }
  CORE_BODY T value(T a, T b) const {
    switch (op) {
      case BinaryOp::add:
        return static_cast<T>(static_cast<W>(a) + alpha * static_cast<W>(b));
      case BinaryOp::sub:
        return static_cast<T>(static_cast<W>(a) - alpha * static_cast<W>(b));
      case BinaryOp::mul:
        return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
      case BinaryOp::maximum:
        return a > b ? a : b;
      case BinaryOp::minimum:
        return a < b ? a : b;
      case BinaryOp::bitwise_and:
        return static_cast<T>(a & b);
      case BinaryOp::bitwise_or:
        return static_cast<T>(a | b);
      default:
        return static_cast<T>(a ^ b);
    }
  }
};

/// What divides, and powers.
template <class T>
struct SlowInteger {
  using W = Wrap<T>;
  BinaryOp op;

  CORE_BODY void operator()(const T (&a)[1], const T (&b)[1], T (&out)[1]) const {
    out[0] = op == BinaryOp::pow ? power(a[0], b[0]) : divided(a[0], b[0]);
  }
  /// The smallest number divided by -1 is itself; what divides by zero was reported before (tensor/device_assert.h).
  CORE_BODY T divided(T a, T b) const {
    if (b == 0) return 0;
    bool overflows = false;
    if constexpr (std::is_signed_v<T>) overflows = b == T(-1) && a == std::numeric_limits<T>::min();
    const T quotient = overflows ? a : static_cast<T>(a / b), rest = overflows ? T(0) : static_cast<T>(a % b);
    switch (op) {
      case BinaryOp::div_trunc:
        return quotient;
      case BinaryOp::div_floor:
        return rest != T(0) && is_negative(a) != is_negative(b) ? static_cast<T>(quotient - 1) : quotient;
      case BinaryOp::fmod:
        return rest;
      default:  // remainder
        return rest != T(0) && is_negative(rest) != is_negative(b) ? static_cast<T>(rest + b) : rest;
    }
  }
  /// By squaring; a negative exponent gives 0 except for a base of 1 or -1.
  CORE_BODY static T power(T base, T exponent) {
    if (is_negative(exponent)) {
      if (base == T(1)) return T(1);
      if (!std::is_signed_v<T> || base != static_cast<T>(-1)) return T(0);
      return exponent % 2 == 0 ? T(1) : static_cast<T>(-1);
    }
    W result = 1, factor = static_cast<W>(base);
    for (auto left = static_cast<std::uint64_t>(exponent); left != 0; left >>= 1) {
      if (left & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};

template <class T, UnaryOp kOp>
void unary_kernel(const UnaryParams& p) {
  run_unary<T, T>(p, IntegerUnary<T>{kOp, p.args[0], p.args[1]});
}
template <class T, BinaryOp kOp>
void binary_kernel(const BinaryParams& p) {
  const bool scales = kOp == BinaryOp::add || kOp == BinaryOp::sub;
  run_binary<T, T>(p, IntegerBinary<T>{kOp, scales ? static_cast<Wrap<T>>(static_cast<std::int64_t>(p.args[0])) : 0});
}
template <class T, BinaryOp kOp>
void slow_kernel(const BinaryParams& p) {
  run_binary<T, T, Packing::no>(p, SlowInteger<T>{kOp});
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
  set_unary<T, U::neg, U::abs, U::sign, U::floor, U::ceil, U::round, U::trunc, U::square, U::relu, U::bitwise_not,
            U::clamp>(table);
  set_binary<T, B::add, B::sub, B::mul, B::maximum, B::minimum, B::bitwise_and, B::bitwise_or, B::bitwise_xor>(table);
  set_slow<T, B::div_floor, B::div_trunc, B::fmod, B::remainder, B::pow>(table);
}

/// On bytes of 0 and 1 these are the kernels of u8. bitwise_not is in elementwise_compare.cu.
void fill_bool(ElementwiseTable& table) {
  using B = BinaryOp;
  const auto set = [&](BinaryOp op, void (*kernel)(const BinaryParams&)) {
    table.binary.set(op, DType::boolean, kernel);
  };
  set(B::add, binary_kernel<std::uint8_t, B::bitwise_or>);
  set(B::mul, binary_kernel<std::uint8_t, B::bitwise_and>);
  set(B::maximum, binary_kernel<std::uint8_t, B::bitwise_or>);
  set(B::minimum, binary_kernel<std::uint8_t, B::bitwise_and>);
  set(B::bitwise_and, binary_kernel<std::uint8_t, B::bitwise_and>);
  set(B::bitwise_or, binary_kernel<std::uint8_t, B::bitwise_or>);
  set(B::bitwise_xor, binary_kernel<std::uint8_t, B::bitwise_xor>);
  table.unary.set(UnaryOp::sign, DType::boolean, unary_kernel<std::uint8_t, UnaryOp::sign>);
}

}  // namespace

void fill_elementwise_integer(ElementwiseTable& table) {
  fill<std::uint8_t>(table);
  fill<std::int8_t>(table);
  fill<std::int16_t>(table);
  fill<std::int32_t>(table);
  fill<std::int64_t>(table);
  fill_bool(table);
}

void fill_elementwise(ElementwiseTable& table) {
  fill_elementwise_float(table);
  fill_elementwise_math(table);
  fill_elementwise_integer(table);
}

}  // namespace core::CORE_KERNELS

// Arithmetic on integers (wrapping, as PyTorch's) and on bool (or, and).
#include <cstdint>
#include <limits>
#include <type_traits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/elementwise/rows.h"

namespace core::cpu {
namespace {

/// Computes in the unsigned type of at least 32 bits, so that overflow wraps instead of being undefined.
template <class T>
using Wrap = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

#define CORE_INTEGER_UNARY(Name, expression) \
  struct Name : NoArgs {                     \
    using NoArgs::NoArgs;                    \
    template <class T>                       \
    T operator()(T x) const {                \
      return static_cast<T>(expression);     \
    }                                        \
  };
CORE_INTEGER_UNARY(Neg, Wrap<T>(0) - static_cast<Wrap<T>>(x))
CORE_INTEGER_UNARY(Abs, x < T(0) ? Wrap<T>(0) - static_cast<Wrap<T>>(x) : static_cast<Wrap<T>>(x))
CORE_INTEGER_UNARY(Sign, (T(0) < x) - (x < T(0)))
CORE_INTEGER_UNARY(Same, x)
CORE_INTEGER_UNARY(Square, static_cast<Wrap<T>>(x) * static_cast<Wrap<T>>(x))
CORE_INTEGER_UNARY(Relu, x < T(0) ? T(0) : x)
CORE_INTEGER_UNARY(BitwiseNot, ~x)
#undef CORE_INTEGER_UNARY

#define CORE_INTEGER_BINARY(Name, expression) \
  struct Name : NoArgs {                      \
    using NoArgs::NoArgs;                     \
    template <class T>                        \
    T operator()(T a, T b) const {            \
      return static_cast<T>(expression);      \
    }                                         \
  };
CORE_INTEGER_BINARY(Mul, static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b))
CORE_INTEGER_BINARY(Maximum, a > b ? a : b)
CORE_INTEGER_BINARY(Minimum, a < b ? a : b)
CORE_INTEGER_BINARY(BitwiseAnd, a& b)
CORE_INTEGER_BINARY(BitwiseOr, a | b)
CORE_INTEGER_BINARY(BitwiseXor, a ^ b)
#undef CORE_INTEGER_BINARY

struct Add {
  std::int64_t alpha;
  explicit Add(const double* args) : alpha(static_cast<std::int64_t>(args[0])) {}
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(alpha) * static_cast<Wrap<T>>(b));
  }
};
struct Sub {
  std::int64_t alpha;
  explicit Sub(const double* args) : alpha(static_cast<std::int64_t>(args[0])) {}
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(alpha) * static_cast<Wrap<T>>(b));
  }
};
struct Clamp {
  double low, high;
  explicit Clamp(const double* args) : low(args[0]), high(args[1]) {}
  template <class T>
  T operator()(T x) const {
    double raised = static_cast<double>(x) < low ? low : static_cast<double>(x);
    if (raised == static_cast<double>(x) && !(raised > high)) return x;
    return static_cast<T>(raised > high ? high : raised);
  }
};

/// The divisor of the smallest number is left alone where the quotient would not fit; a zero divisor is refused before.
template <class T>
bool overflows(T a, T b) {
  if constexpr (std::is_signed_v<T>) return b == T(-1) && a == std::numeric_limits<T>::min();
  return false;
}
struct DivTrunc : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    return overflows(a, b) ? a : static_cast<T>(a / b);
  }
};
struct DivFloor : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    if (overflows(a, b)) return a;
    T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  }
};
struct Fmod : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    return overflows(a, b) ? T(0) : static_cast<T>(a % b);
  }
};
struct Remainder : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T a, T b) const {
    if (overflows(a, b)) return 0;
    T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
/// By squaring; a negative exponent gives 0 except for a base of 1 or -1.
struct Pow : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T base, T exponent) const {
    if (exponent < T(0)) {
      if (base == T(1)) return 1;
      return std::is_signed_v<T> && base == static_cast<T>(-1) ? (exponent % 2 == 0 ? 1 : static_cast<T>(-1)) : T(0);
    }
    Wrap<T> result = 1;
    Wrap<T> factor = static_cast<Wrap<T>>(base);
    for (auto left = static_cast<std::uint64_t>(exponent); left != 0; left >>= 1) {
      if (left & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};

struct BoolOr : NoArgs {
  using NoArgs::NoArgs;
  bool operator()(bool a, bool b) const { return a || b; }
};
struct BoolAnd : NoArgs {
  using NoArgs::NoArgs;
  bool operator()(bool a, bool b) const { return a && b; }
};
struct BoolXor : NoArgs {
  using NoArgs::NoArgs;
  bool operator()(bool a, bool b) const { return a != b; }
};
struct BoolNot : NoArgs {
  using NoArgs::NoArgs;
  bool operator()(bool a) const { return !a; }
};
struct BoolSame : NoArgs {
  using NoArgs::NoArgs;
  bool operator()(bool a) const { return a; }
};

template <class T>
void fill_integer_of(ElementwiseTable& table) {
  set_unary<Neg, T>(table, UnaryOp::neg);
  set_unary<Abs, T>(table, UnaryOp::abs);
  set_unary<Sign, T>(table, UnaryOp::sign);
  set_unary<Same, T>(table, UnaryOp::floor);
  set_unary<Same, T>(table, UnaryOp::ceil);
  set_unary<Same, T>(table, UnaryOp::round);
  set_unary<Same, T>(table, UnaryOp::trunc);
  set_unary<Square, T>(table, UnaryOp::square);
  set_unary<Relu, T>(table, UnaryOp::relu);
  set_unary<BitwiseNot, T>(table, UnaryOp::bitwise_not);
  set_unary<Clamp, T>(table, UnaryOp::clamp);
  set_binary<Add, T>(table, BinaryOp::add);
  set_binary<Sub, T>(table, BinaryOp::sub);
  set_binary<Mul, T>(table, BinaryOp::mul);
  set_binary<DivFloor, T>(table, BinaryOp::div_floor);
  set_binary<DivTrunc, T>(table, BinaryOp::div_trunc);
  set_binary<Fmod, T>(table, BinaryOp::fmod);
  set_binary<Remainder, T>(table, BinaryOp::remainder);
  set_binary<Pow, T>(table, BinaryOp::pow);
  set_binary<Maximum, T>(table, BinaryOp::maximum);
  set_binary<Minimum, T>(table, BinaryOp::minimum);
  set_binary<BitwiseAnd, T>(table, BinaryOp::bitwise_and);
  set_binary<BitwiseOr, T>(table, BinaryOp::bitwise_or);
  set_binary<BitwiseXor, T>(table, BinaryOp::bitwise_xor);
}

}  // namespace

void fill_integers(ElementwiseTable& table) {
  fill_integer_of<std::uint8_t>(table);
  fill_integer_of<std::int8_t>(table);
  fill_integer_of<std::int16_t>(table);
  fill_integer_of<std::int32_t>(table);
  fill_integer_of<std::int64_t>(table);
  set_binary<BoolOr, bool>(table, BinaryOp::add);
  set_binary<BoolAnd, bool>(table, BinaryOp::mul);
  set_binary<BoolOr, bool>(table, BinaryOp::maximum);
  set_binary<BoolAnd, bool>(table, BinaryOp::minimum);
  set_binary<BoolAnd, bool>(table, BinaryOp::bitwise_and);
  set_binary<BoolOr, bool>(table, BinaryOp::bitwise_or);
  set_binary<BoolXor, bool>(table, BinaryOp::bitwise_xor);
  set_unary<BoolNot, bool>(table, UnaryOp::bitwise_not);
  set_unary<BoolSame, bool>(table, UnaryOp::sign);
}

}  // namespace core::cpu

// Element by element: arithmetic, functions, comparisons, choices.
#include <cmath>
#include <complex>
#include <numbers>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/complex/arithmetic.h"
#include "libcore/backend/cpu/complex/complex_tables.h"
#include "libcore/backend/cpu/elementwise/rows.h"

namespace core::cpu {
namespace {

#define COMPLEX_UNARY(Name, ...)                                 \
  struct Name : NoArgs {                                         \
    using NoArgs::NoArgs;                                        \
    template <class T>                                           \
    std::complex<T> operator()(const std::complex<T>& z) const { \
      __VA_ARGS__                                                \
    }                                                            \
  };
COMPLEX_UNARY(Neg, return -z;)
COMPLEX_UNARY(Square, return product(z, z);)
COMPLEX_UNARY(Reciprocal, return quotient(std::complex<T>(1), z);)
COMPLEX_UNARY(Sqrt, return std::sqrt(z);)
COMPLEX_UNARY(Rsqrt, return quotient(std::complex<T>(1), std::sqrt(z));)
COMPLEX_UNARY(Exp, return std::exp(z);)
COMPLEX_UNARY(Exp2, return std::exp(z * T(std::numbers::ln2));)
/// Near 0 without the loss of exp(z) - 1.
COMPLEX_UNARY(Expm1, const T half = std::sin(z.imag() / 2), grown = std::expm1(z.real());
              return {grown * std::cos(z.imag()) - 2 * half * half, (grown + 1) * std::sin(z.imag())};)
COMPLEX_UNARY(Log, return std::log(z);)
COMPLEX_UNARY(Log2, return std::log(z) / T(std::numbers::ln2);)
COMPLEX_UNARY(Log10, return std::log(z) / T(std::numbers::ln10);)
/// |1 + z|^2 = 1 + a (2 + a) + b^2, without the loss near 0.
COMPLEX_UNARY(Log1p, const T a = z.real(), b = z.imag();
              return {std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a)};)
COMPLEX_UNARY(Sin, return std::sin(z);)
COMPLEX_UNARY(Cos, return std::cos(z);)
COMPLEX_UNARY(Tan, return std::tan(z);)
COMPLEX_UNARY(Asin, return std::asin(z);)
COMPLEX_UNARY(Acos, return std::acos(z);)
COMPLEX_UNARY(Atan, return std::atan(z);)
COMPLEX_UNARY(Sinh, return std::sinh(z);)
COMPLEX_UNARY(Cosh, return std::cosh(z);)
COMPLEX_UNARY(Tanh, return std::tanh(z);)
COMPLEX_UNARY(Sigmoid, return quotient(std::complex<T>(1), T(1) + std::exp(-z));)
COMPLEX_UNARY(Silu, return quotient(z, T(1) + std::exp(-z));)
#undef COMPLEX_UNARY

/// The one function whose results are real.
struct Abs : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(const std::complex<T>& z) const {
    return std::abs(z);
  }
};

/// nan_to_num: both parts on their own.
struct NanToNum {
  double nan, high, low;
  explicit NanToNum(const double* args) : nan(args[0]), high(args[1]), low(args[2]) {}
  template <class T>
  T part(T x) const {
    return static_cast<T>(std::isnan(x) ? nan : std::isinf(x) ? (x > 0 ? high : low) : static_cast<double>(x));
  }
  template <class T>
  std::complex<T> operator()(const std::complex<T>& z) const {
    return {part(z.real()), part(z.imag())};
  }
};

struct Add {
  double alpha;
  explicit Add(const double* args) : alpha(args[0]) {}
  template <class T>
  std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b) const {
    return a + static_cast<T>(alpha) * b;
  }
};
struct Sub {
  double alpha;
  explicit Sub(const double* args) : alpha(args[0]) {}
  template <class T>
  std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b) const {
    return a - static_cast<T>(alpha) * b;
  }
};
#define COMPLEX_BINARY(Name, expression)                                                   \
  struct Name : NoArgs {                                                                   \
    using NoArgs::NoArgs;                                                                  \
    template <class T>                                                                     \
    std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b) const { \
      return expression;                                                                   \
    }                                                                                      \
  };
COMPLEX_BINARY(Mul, product(a, b))
COMPLEX_BINARY(Div, quotient(a, b))
/// As PyTorch's: NaN for 0 to the power of 0.
COMPLEX_BINARY(Pow, std::exp(product(b, std::log(a))))
COMPLEX_BINARY(SigmoidBackward, product(a, product(b, T(1) - b)))
COMPLEX_BINARY(TanhBackward, product(a, T(1) - product(b, b)))
#undef COMPLEX_BINARY

#define COMPLEX_COMPARE(Name, expression)                                       \
  struct Name : NoArgs {                                                        \
    using NoArgs::NoArgs;                                                       \
    template <class T>                                                          \
    bool operator()(const std::complex<T>& a, const std::complex<T>& b) const { \
      return expression;                                                        \
    }                                                                           \
  };
COMPLEX_COMPARE(Eq, a == b)
COMPLEX_COMPARE(Ne, a != b)
COMPLEX_COMPARE(LogicalAnd, a != T(0) && b != T(0))
COMPLEX_COMPARE(LogicalOr, a != T(0) || b != T(0))
COMPLEX_COMPARE(LogicalXor, (a != T(0)) != (b != T(0)))
#undef COMPLEX_COMPARE

#define COMPLEX_PREDICATE(Name, expression)           \
  struct Name : NoArgs {                              \
    using NoArgs::NoArgs;                             \
    template <class T>                                \
    bool operator()(const std::complex<T>& z) const { \
      return expression;                              \
    }                                                 \
  };
COMPLEX_PREDICATE(LogicalNot, z == T(0))
COMPLEX_PREDICATE(IsNan, std::isnan(z.real()) || std::isnan(z.imag()))
COMPLEX_PREDICATE(IsInf, std::isinf(z.real()) || std::isinf(z.imag()))
COMPLEX_PREDICATE(IsFinite, std::isfinite(z.real()) && std::isfinite(z.imag()))
#undef COMPLEX_PREDICATE

struct Where : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(bool mask, const T& a, const T& b) const {
    return mask ? a : b;
  }
};
struct Addcmul {
  double value;
  explicit Addcmul(const double* args) : value(args[0]) {}
  template <class T>
  std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b, const std::complex<T>& c) const {
    return a + static_cast<T>(value) * product(b, c);
  }
};
struct Addcdiv {
  double value;
  explicit Addcdiv(const double* args) : value(args[0]) {}
  template <class T>
  std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b, const std::complex<T>& c) const {
    return a + static_cast<T>(value) * quotient(b, c);
  }
};
/// From the nearer end, so that weights 0 and 1 give the ends exactly.
struct Lerp : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  std::complex<T> operator()(const std::complex<T>& a, const std::complex<T>& b, const std::complex<T>& w) const {
    return std::norm(w) < T(0.25) ? a + product(w, b - a) : b - product(b - a, T(1) - w);
  }
};

template <class C>
void fill_unaries(ElementwiseTable& t) {
  set_unary<Neg, C>(t, UnaryOp::neg);
  set_unary<Square, C>(t, UnaryOp::square);
  set_unary<Reciprocal, C>(t, UnaryOp::reciprocal);
  set_unary<Sqrt, C>(t, UnaryOp::sqrt);
  set_unary<Rsqrt, C>(t, UnaryOp::rsqrt);
  set_unary<Exp, C>(t, UnaryOp::exp);
  set_unary<Exp2, C>(t, UnaryOp::exp2);
  set_unary<Expm1, C>(t, UnaryOp::expm1);
  set_unary<Log, C>(t, UnaryOp::log);
  set_unary<Log2, C>(t, UnaryOp::log2);
  set_unary<Log10, C>(t, UnaryOp::log10);
  set_unary<Log1p, C>(t, UnaryOp::log1p);
  set_unary<Sin, C>(t, UnaryOp::sin);
  set_unary<Cos, C>(t, UnaryOp::cos);
  set_unary<Tan, C>(t, UnaryOp::tan);
  set_unary<Asin, C>(t, UnaryOp::asin);
  set_unary<Acos, C>(t, UnaryOp::acos);
  set_unary<Atan, C>(t, UnaryOp::atan);
  set_unary<Sinh, C>(t, UnaryOp::sinh);
  set_unary<Cosh, C>(t, UnaryOp::cosh);
  set_unary<Tanh, C>(t, UnaryOp::tanh);
  set_unary<Sigmoid, C>(t, UnaryOp::sigmoid);
  set_unary<Silu, C>(t, UnaryOp::silu);
  set_unary<NanToNum, C>(t, UnaryOp::nan_to_num);
  t.unary.set(UnaryOp::abs, dtype_of<C>, unary_kernel<C, typename C::value_type, Abs>);
}

template <class C>
void fill_binaries(ElementwiseTable& t) {
  set_binary<Add, C>(t, BinaryOp::add);
  set_binary<Sub, C>(t, BinaryOp::sub);
  set_binary<Mul, C>(t, BinaryOp::mul);
  set_binary<Div, C>(t, BinaryOp::div);
  set_binary<Pow, C>(t, BinaryOp::pow);
  set_binary<SigmoidBackward, C>(t, BinaryOp::sigmoid_backward);
  set_binary<TanhBackward, C>(t, BinaryOp::tanh_backward);
}

template <class C>
void fill_tests(ElementwiseTable& t) {
  constexpr DType kType = dtype_of<C>;
  t.compare.set(CompareOp::eq, kType, binary_kernel<C, bool, Eq>);
  t.compare.set(CompareOp::ne, kType, binary_kernel<C, bool, Ne>);
  t.compare.set(CompareOp::logical_and, kType, binary_kernel<C, bool, LogicalAnd>);
  t.compare.set(CompareOp::logical_or, kType, binary_kernel<C, bool, LogicalOr>);
  t.compare.set(CompareOp::logical_xor, kType, binary_kernel<C, bool, LogicalXor>);
  t.predicate.set(PredicateOp::logical_not, kType, unary_kernel<C, bool, LogicalNot>);
  t.predicate.set(PredicateOp::isnan, kType, unary_kernel<C, bool, IsNan>);
  t.predicate.set(PredicateOp::isinf, kType, unary_kernel<C, bool, IsInf>);
  t.predicate.set(PredicateOp::isfinite, kType, unary_kernel<C, bool, IsFinite>);
}

template <class C>
void fill_all(ElementwiseTable& t) {
  fill_unaries<C>(t);
  fill_binaries<C>(t);
  fill_tests<C>(t);
  t.ternary.set(TernaryOp::where, dtype_of<C>, ternary_kernel<bool, C, Where>);
  t.ternary.set(TernaryOp::addcmul, dtype_of<C>, ternary_kernel<C, C, Addcmul>);
  t.ternary.set(TernaryOp::addcdiv, dtype_of<C>, ternary_kernel<C, C, Addcdiv>);
  t.ternary.set(TernaryOp::lerp, dtype_of<C>, ternary_kernel<C, C, Lerp>);
}

/// Op on numbers of complex32: what Op gives of complex64, rounded; a bool as it is.
template <class Op>
struct OfHalves : Op {
  using Op::Op;
  static ComplexHalf rounded(const std::complex<float>& z) { return halved(z); }
  static Half rounded(float x) { return {f32_to_f16(x)}; }
  static bool rounded(bool is_true) { return is_true; }

  template <class... Numbers>
  auto operator()(const Numbers&... numbers) const {
    return rounded(static_cast<const Op&>(*this)(widened(numbers)...));
  }
};

/// Every step is rounded, as in PyTorch.
struct AddcmulOfHalves {
  ComplexHalf value;
  explicit AddcmulOfHalves(const double* args) : value(halved(static_cast<float>(args[0]))) {}
  static ComplexHalf rounded_product(const ComplexHalf& a, const ComplexHalf& b) {
    return halved(product(widened(a), widened(b)));
  }
  ComplexHalf operator()(const ComplexHalf& a, const ComplexHalf& b, const ComplexHalf& c) const {
    return halved(widened(a) + widened(rounded_product(rounded_product(value, b), c)));
  }
};

/// What PyTorch computes in complex32 on the CPU.
void fill_halves(ElementwiseTable& t) {
  using C = ComplexHalf;
  constexpr DType kType = DType::c32;
  set_unary<OfHalves<Neg>, C>(t, UnaryOp::neg);
  t.unary.set(UnaryOp::abs, kType, unary_kernel<C, Half, OfHalves<Abs>>);
  set_binary<OfHalves<Add>, C>(t, BinaryOp::add);
  set_binary<OfHalves<Sub>, C>(t, BinaryOp::sub);
  set_binary<OfHalves<Mul>, C>(t, BinaryOp::mul);
  t.compare.set(CompareOp::eq, kType, binary_kernel<C, bool, OfHalves<Eq>>);
  t.compare.set(CompareOp::ne, kType, binary_kernel<C, bool, OfHalves<Ne>>);
  t.predicate.set(PredicateOp::isnan, kType, unary_kernel<C, bool, OfHalves<IsNan>>);
  t.predicate.set(PredicateOp::isinf, kType, unary_kernel<C, bool, OfHalves<IsInf>>);
  t.predicate.set(PredicateOp::isfinite, kType, unary_kernel<C, bool, OfHalves<IsFinite>>);
  t.ternary.set(TernaryOp::where, kType, ternary_kernel<bool, C, Where>);
  t.ternary.set(TernaryOp::addcmul, kType, ternary_kernel<C, C, AddcmulOfHalves>);
}

}  // namespace

void fill_complex_elementwise(ElementwiseTable& table) {
  fill_halves(table);
  fill_all<std::complex<float>>(table);
  fill_all<std::complex<double>>(table);
}

}  // namespace core::cpu

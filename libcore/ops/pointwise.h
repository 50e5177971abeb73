#pragma once
// Operations element by element, as torch.X: results, dtypes, broadcasting, errors and gradients are PyTorch's. A name
// that ends in _ works in place: it changes its first argument and returns it, with history, version and errors as
// PyTorch's. Thread safety: pure functions of their arguments; those in place write their first. Errors(runtime) in
// place: "a leaf Variable that requires grad is being used in an in-place operation.", "result type Float can't be cast
// to the desired output type Long", "output with shape [3] doesn't match the broadcast shape [2, 3]". Cost: hypot, gcd
// and their like compute on the host, element after element. Use: core::Tensor z = core::where(y > 0, y, core::exp(y) -
// 1); core::floor_(z);

#include <cstdint>
#include <functional>
#include <optional>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha = 1);
Tensor add(const Tensor& a, Scalar b, Scalar alpha = 1);
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
Tensor sub(const Tensor& a, Scalar b, Scalar alpha = 1);

/// b - alpha * a
Tensor rsub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
Tensor rsub(const Tensor& a, Scalar b, Scalar alpha = 1);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
enum class Rounding { floor, trunc };
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& base, const Tensor& exponent);
Tensor pow(const Tensor& base, Scalar exponent);
Tensor pow(Scalar base, const Tensor& exponent);

/// pow in float64, of complex numbers in complex128
Tensor float_power(const Tensor& base, const Tensor& exponent);
Tensor float_power(const Tensor& base, Scalar exponent);

/// Integers only.
Tensor gcd(const Tensor& a, const Tensor& b);
Tensor lcm(const Tensor& a, const Tensor& b);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value = 1);
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value = 1);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

/// The larger (smaller); of a number and NaN the number.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});

/// x limited to [low, high] element by element; either may be undefined.
/// Error(runtime) "torch.clamp: At least one of 'min' or 'max' must not be None".
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& mask, const Tensor& a, Scalar b);
Tensor where(const Tensor& mask, Scalar a, const Tensor& b);
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
Tensor atan2(const Tensor& a, const Tensor& b);
Tensor hypot(const Tensor& a, const Tensor& b);

/// |a| with the sign of b
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);

/// 0, values or 1 where x is negative, 0 or positive. Has no derivative.
Tensor heaviside(const Tensor& x, const Tensor& values);

/// a * log(b), 0 where a is 0
Tensor xlogy(const Tensor& a, const Tensor& b);

/// a * 2^b
Tensor ldexp(const Tensor& a, const Tensor& b);

/// The number next to a in the direction of b. Error(not_implemented) "\"nextafter_cpu\" not implemented for 'Long'".
Tensor nextafter(const Tensor& a, const Tensor& b);
const Tensor& nextafter_(const Tensor& x, const Tensor& other);

struct Frexp {
  Tensor mantissa;  ///< 0, or at least 0.5 and below 1 in size
  Tensor exponent;  ///< int32
};
/// x = mantissa * 2^exponent. Error(runtime) "torch.frexp() only supports floating-point dtypes".
Frexp frexp(const Tensor& x);

/// log(exp(a) + exp(b)), and with powers of two
Tensor logaddexp(const Tensor& a, const Tensor& b);
Tensor logaddexp2(const Tensor& a, const Tensor& b);
Tensor abs(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor deg2rad(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor frac(const Tensor& x);
Tensor lgamma(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log2(const Tensor& x);

/// log(x / (1 - x)); x is limited to [eps, 1 - eps] first when eps is given.
Tensor logit(const Tensor& x, std::optional<double> eps = {});
Tensor neg(const Tensor& x);

/// The n-th derivative of digamma. Error(runtime) "polygamma(n, x) does not support negative n."
Tensor polygamma(std::int64_t n, const Tensor& x);

/// x itself. Error(runtime) "The `+` operator, on a bool tensor is not supported."
Tensor positive(const Tensor& x);
Tensor rad2deg(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor round(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor sgn(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor sin(const Tensor& x);

/// sin(pi x) / (pi x), 1 at 0
Tensor sinc(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor trigamma(const Tensor& x);
Tensor trunc(const Tensor& x);
const Tensor& acos_(const Tensor& x);
const Tensor& acosh_(const Tensor& x);
const Tensor& asin_(const Tensor& x);
const Tensor& asinh_(const Tensor& x);
const Tensor& atan_(const Tensor& x);
const Tensor& atanh_(const Tensor& x);
const Tensor& ceil_(const Tensor& x);
const Tensor& cos_(const Tensor& x);
const Tensor& cosh_(const Tensor& x);
const Tensor& deg2rad_(const Tensor& x);
const Tensor& digamma_(const Tensor& x);
const Tensor& erf_(const Tensor& x);
const Tensor& erfc_(const Tensor& x);
const Tensor& erfinv_(const Tensor& x);
const Tensor& exp2_(const Tensor& x);
const Tensor& expm1_(const Tensor& x);
const Tensor& floor_(const Tensor& x);
const Tensor& frac_(const Tensor& x);
const Tensor& lgamma_(const Tensor& x);
const Tensor& log_(const Tensor& x);
const Tensor& log10_(const Tensor& x);
const Tensor& log1p_(const Tensor& x);
const Tensor& log2_(const Tensor& x);
const Tensor& rad2deg_(const Tensor& x);
const Tensor& reciprocal_(const Tensor& x);
const Tensor& round_(const Tensor& x);
const Tensor& rsqrt_(const Tensor& x);
const Tensor& sgn_(const Tensor& x);
const Tensor& sign_(const Tensor& x);
const Tensor& sin_(const Tensor& x);
const Tensor& sinc_(const Tensor& x);
const Tensor& sinh_(const Tensor& x);
const Tensor& square_(const Tensor& x);
const Tensor& tan_(const Tensor& x);
const Tensor& trunc_(const Tensor& x);
const Tensor& nan_to_num_(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                          std::optional<double> neginf = {});
const Tensor& logit_(const Tensor& x, std::optional<double> eps = {});

// with a second operand; shapes broadcast to x's
const Tensor& atan2_(const Tensor& x, const Tensor& other);
const Tensor& copysign_(const Tensor& x, const Tensor& other);
const Tensor& floor_divide_(const Tensor& x, const Tensor& other);
const Tensor& fmod_(const Tensor& x, const Tensor& other);
const Tensor& heaviside_(const Tensor& x, const Tensor& other);
const Tensor& hypot_(const Tensor& x, const Tensor& other);
const Tensor& ldexp_(const Tensor& x, const Tensor& other);
const Tensor& pow_(const Tensor& x, const Tensor& other);
const Tensor& remainder_(const Tensor& x, const Tensor& other);
const Tensor& xlogy_(const Tensor& x, const Tensor& other);
const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high);
const Tensor& lerp_(const Tensor& x, const Tensor& end, const Tensor& weight);

/// Each element becomes function(element), on the host in float64. Errors(runtime), of apply_: "Can't call apply_() on
/// Variable that requires grad. Use var.detach().apply_() instead."; "apply_ is only implemented on CPU tensors".
const Tensor& apply_(const Tensor& x, const std::function<double(double)>& function);
const Tensor& map_(const Tensor& x, const Tensor& other, const std::function<double(double, double)>& function);
const Tensor& map2_(const Tensor& x, const Tensor& a, const Tensor& b,
                    const std::function<double(double, double, double)>& function);

}  // namespace core

#include "libcore/ops/operators.h"

#pragma once
// Rarer mathematics on tensors, element by element and as reductions, as torch.X: results, dtypes, gradients and node
// names are PyTorch's. The common ones are in ops.h. Thread safety: pure functions.
// Cost: hypot, gcd and their like compute on the host, element after element.
// Use: core::Tensor y = core::logaddexp(a, b); core::Tensor d = core::diff(x, {.dim = 0});

#include <cstdint>
#include <optional>

#include "libcore/tensor/ops.h"

namespace core {

// --- one tensor
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erfc(const Tensor& x);
/// sin(pi x) / (pi x), 1 at 0
Tensor sinc(const Tensor& x);
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);
Tensor sgn(const Tensor& x);
Tensor signbit(const Tensor& x);
/// x itself. Error(runtime) "The `+` operator, on a bool tensor is not supported."
Tensor positive(const Tensor& x);
/// The n-th derivative of digamma. Error(runtime) "polygamma(n, x) does not support negative n."
Tensor polygamma(std::int64_t n, const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);

// --- two tensors; shapes broadcast
/// log(exp(a) + exp(b)), and with powers of two
Tensor logaddexp(const Tensor& a, const Tensor& b);
Tensor logaddexp2(const Tensor& a, const Tensor& b);
Tensor hypot(const Tensor& a, const Tensor& b);
/// |a| with the sign of b
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Scalar b);
/// 0, values or 1 where x is negative, 0 or positive. Has no derivative.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// The larger (smaller); of a number and NaN the number.
Tensor fmax(const Tensor& a, const Tensor& b);
Tensor fmin(const Tensor& a, const Tensor& b);
/// a * log(b), 0 where a is 0
Tensor xlogy(const Tensor& a, const Tensor& b);
/// a * 2^b
Tensor ldexp(const Tensor& a, const Tensor& b);
/// pow in float64
Tensor float_power(const Tensor& base, const Tensor& exponent);
Tensor float_power(const Tensor& base, Scalar exponent);
/// Integers only.
Tensor gcd(const Tensor& a, const Tensor& b);
Tensor lcm(const Tensor& a, const Tensor& b);
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
/// |a - b| <= atol + rtol * |b|, element by element.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

// --- reductions
/// Without the elements that are NaN.
Tensor nansum(const Tensor& x, const ReduceOptions& options = {});
Tensor nanmean(const Tensor& x, const ReduceOptions& options = {});
/// int64
Tensor count_nonzero(const Tensor& x, const Shape& dims = {});
struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const VarOptions& options = {});
/// The p-norm of a - b.
Tensor dist(const Tensor& a, const Tensor& b, double p = 2);
/// Slices along dim whose p-norm is over maxnorm are scaled down to it.
Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
/// Rows are variables. x: (variables, observations) or (observations).
Tensor cov(const Tensor& x, std::int64_t correction = 1);
Tensor corrcoef(const Tensor& x);

// --- along one dimension
struct DiffOptions {
  std::int64_t n = 1;
  std::int64_t dim = -1;
  Tensor prepend = {}, append = {};
};
/// Differences of neighbours, n times; of bool: whether they differ.
Tensor diff(const Tensor& x, const DiffOptions& options = {});
struct TrapezoidOptions {
  Tensor x = {};  ///< positions of the samples; else they are dx apart
  double dx = 1;
  std::int64_t dim = -1;
};
Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options = {});
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options = {});

}  // namespace core

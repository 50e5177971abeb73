#pragma once
// The rarer operations in place, as torch.X_: each changes its first argument and returns it, with history, version and
// errors as PyTorch's. The common ones are methods of Tensor. Thread safety: writes its first argument.
// Errors(runtime): "a leaf Variable that requires grad is being used in an in-place operation.", "result type Float
// can't be cast to the desired output type Long", "output with shape [3] doesn't match the broadcast shape [2, 3]".
// Use: core::floor_(x); core::masked_scatter_(x, mask, values);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/ops.h"

namespace core {

// --- element by element
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
const Tensor& bitwise_not_(const Tensor& x);
const Tensor& logical_not_(const Tensor& x);
// activations
const Tensor& elu_(const Tensor& x, double alpha = 1);
const Tensor& celu_(const Tensor& x, double alpha = 1);
const Tensor& selu_(const Tensor& x);
const Tensor& leaky_relu_(const Tensor& x, double slope = 0.01);
const Tensor& hardtanh_(const Tensor& x, double low = -1, double high = 1);
const Tensor& relu6_(const Tensor& x);
const Tensor& hardswish_(const Tensor& x);
const Tensor& hardsigmoid_(const Tensor& x);
const Tensor& silu_(const Tensor& x);
const Tensor& mish_(const Tensor& x);
const Tensor& threshold_(const Tensor& x, double limit, double value);
const Tensor& nan_to_num_(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                          std::optional<double> neginf = {});
const Tensor& logit_(const Tensor& x, std::optional<double> eps = {});
// with a second operand; shapes broadcast to x's
const Tensor& atan2_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_and_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_or_(const Tensor& x, const Tensor& other);
const Tensor& bitwise_xor_(const Tensor& x, const Tensor& other);
const Tensor& copysign_(const Tensor& x, const Tensor& other);
const Tensor& eq_(const Tensor& x, const Tensor& other);
const Tensor& floor_divide_(const Tensor& x, const Tensor& other);
const Tensor& fmod_(const Tensor& x, const Tensor& other);
const Tensor& ge_(const Tensor& x, const Tensor& other);
const Tensor& gt_(const Tensor& x, const Tensor& other);
const Tensor& heaviside_(const Tensor& x, const Tensor& other);
const Tensor& hypot_(const Tensor& x, const Tensor& other);
const Tensor& ldexp_(const Tensor& x, const Tensor& other);
const Tensor& le_(const Tensor& x, const Tensor& other);
const Tensor& logical_and_(const Tensor& x, const Tensor& other);
const Tensor& logical_or_(const Tensor& x, const Tensor& other);
const Tensor& logical_xor_(const Tensor& x, const Tensor& other);
const Tensor& lt_(const Tensor& x, const Tensor& other);
const Tensor& ne_(const Tensor& x, const Tensor& other);
const Tensor& pow_(const Tensor& x, const Tensor& other);
const Tensor& remainder_(const Tensor& x, const Tensor& other);
const Tensor& xlogy_(const Tensor& x, const Tensor& other);
const Tensor& eq_(const Tensor& x, Scalar other);
const Tensor& ge_(const Tensor& x, Scalar other);
const Tensor& gt_(const Tensor& x, Scalar other);
const Tensor& le_(const Tensor& x, Scalar other);
const Tensor& lt_(const Tensor& x, Scalar other);
const Tensor& ne_(const Tensor& x, Scalar other);
const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high);
const Tensor& lerp_(const Tensor& x, const Tensor& end, const Tensor& weight);

// --- along dimensions, products
const Tensor& cumsum_(const Tensor& x, std::int64_t dim);
const Tensor& cumprod_(const Tensor& x, std::int64_t dim);
const Tensor& tril_(const Tensor& x, std::int64_t diagonal = 0);
const Tensor& triu_(const Tensor& x, std::int64_t diagonal = 0);
/// Writes the main diagonal (of a matrix, or of equal dimensions). wrap: again below a tall matrix's square.
const Tensor& fill_diagonal_(const Tensor& x, Scalar value, bool wrap = false);
const Tensor& addmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
const Tensor& addmv_(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta = 1, Scalar alpha = 1);
const Tensor& baddbmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
const Tensor& renorm_(const Tensor& x, double p, std::int64_t dim, double maxnorm);

// --- picking
const Tensor& index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
const Tensor& index_fill_(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source);
const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
const Tensor& scatter_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                              const std::string& reduce, bool include_self = true);

}  // namespace core

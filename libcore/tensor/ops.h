#pragma once
// Operations on tensors, as torch.X: results, dtypes, views, errors and gradients are PyTorch's. With history: the same
// functions without it are in raw_ops.h, the nodes in autograd/.
// Thread safety: pure functions of their arguments; in-place ones (name_) write their first.
// Use: core::Tensor y = core::matmul(x, w) + b; core::Tensor z = core::where(y > 0, y, core::exp(y) - 1);

#include <optional>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct ValuesIndices {
  Tensor values;
  Tensor indices;  // int64
};

/// The dtype of an operation between two tensors by PyTorch's promotion rules (0-dim tensors are weaker).
DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensor& a, Scalar b);
DType promote_types(DType a, DType b);
/// Error(runtime) "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1".
Shape broadcast_shapes(const Shape& a, const Shape& b);

// --- element by element; shapes broadcast
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
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight);
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value = 1);
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value = 1);
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& mask, const Tensor& a, Scalar b);
Tensor where(const Tensor& mask, Scalar a, const Tensor& b);
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});

Tensor abs(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor erf(const Tensor& x);
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
Tensor neg(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor round(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor trigamma(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor bitwise_not(const Tensor& x);
// activations
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor threshold(const Tensor& x, double limit, double value);
enum class GeluForm { exact, tanh };
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);
Tensor silu(const Tensor& x);
Tensor log_sigmoid(const Tensor& x);

// --- comparisons and logic: bool results
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
/// Same dtype, shape and values.
bool equal(const Tensor& a, const Tensor& b);
struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

// --- reductions: over all elements, or over `dims` (empty: all)
struct ReduceOptions {
  Shape dims = {};
  bool keepdim = false;
  std::optional<DType> dtype = {};
};
Tensor sum(const Tensor& x, const ReduceOptions& options = {});
Tensor mean(const Tensor& x, const ReduceOptions& options = {});
Tensor prod(const Tensor& x, const ReduceOptions& options = {});
struct VarOptions {
  Shape dims = {};
  double correction = 1;
  bool keepdim = false;
};
Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor std(const Tensor& x, const VarOptions& options = {});
/// The vector p-norm; p may be infinite or 0.
struct NormOptions {
  double p = 2;
  Shape dims = {};
  bool keepdim = false;
};
Tensor norm(const Tensor& x, const NormOptions& options = {});
Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim = false);
Tensor amax(const Tensor& x, const ReduceOptions& options = {});
Tensor amin(const Tensor& x, const ReduceOptions& options = {});
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor all(const Tensor& x, const ReduceOptions& options = {});
Tensor any(const Tensor& x, const ReduceOptions& options = {});
Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
ValuesIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);
/// Sums `x` down to `sizes`, a shape that broadcasts to x's.
Tensor sum_to(const Tensor& x, const Shape& sizes);

// --- products
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& matrix, const Tensor& vector);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
/// beta * c + alpha * a @ b
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// x @ weight^T + bias; bias may be undefined. x: (*, in), weight: (out, in), bias: (out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// --- joining, taking apart, picking
Tensor cat(const std::vector<Tensor>& parts, std::int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& parts, std::int64_t dim = 0);
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// (count, x.dim()), int64.
Tensor nonzero(const Tensor& x);
Tensor repeat(const Tensor& x, const Shape& times);
Tensor flip(const Tensor& x, const Shape& dims);
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
Tensor pad_constant(const Tensor& x, const Shape& pads, Scalar value = 0);

}  // namespace core

#include "libcore/tensor/ops_inline.h"

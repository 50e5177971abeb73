// Operations in place that have no method.
#include "libcore/tensor/inplace_ops.h"

#include <algorithm>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/in_place.h"
#include "libcore/autograd/internal_ops.h"
#include "libcore/base/error.h"
#include "libcore/tensor/activation_ops.h"
#include "libcore/tensor/math_ops.h"
#include "libcore/tensor/more_ops.h"
#include "libcore/tensor/pick_ops.h"

namespace core {
namespace {

using detail::in_place;

/// For operations with a kernel that writes into its own input.
template <class Operation>
const Tensor& direct(const Tensor& x, UnaryOp op, Operation operation) {
  return in_place(x, needs_grad(x), operation, [&] { raw::unary_into(op, x, x); });
}
template <class Operation>
const Tensor& with_other(const Tensor& x, const Tensor& other, Operation operation) {
  detail::check_overlap(x, other);
  return in_place(x, needs_grad(x, other), operation);
}

}  // namespace

const Tensor& acos_(const Tensor& x) {
  return direct(x, UnaryOp::acos, [](const Tensor& t) { return acos(t); });
}
const Tensor& acosh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return acosh(t); });
}
const Tensor& asin_(const Tensor& x) {
  return direct(x, UnaryOp::asin, [](const Tensor& t) { return asin(t); });
}
const Tensor& asinh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return asinh(t); });
}
const Tensor& atan_(const Tensor& x) {
  return direct(x, UnaryOp::atan, [](const Tensor& t) { return atan(t); });
}
const Tensor& atanh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return atanh(t); });
}
const Tensor& ceil_(const Tensor& x) {
  return direct(x, UnaryOp::ceil, [](const Tensor& t) { return ceil(t); });
}
const Tensor& cos_(const Tensor& x) {
  return direct(x, UnaryOp::cos, [](const Tensor& t) { return cos(t); });
}
const Tensor& cosh_(const Tensor& x) {
  return direct(x, UnaryOp::cosh, [](const Tensor& t) { return cosh(t); });
}
const Tensor& deg2rad_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return deg2rad(t); });
}
const Tensor& digamma_(const Tensor& x) {
  return direct(x, UnaryOp::digamma, [](const Tensor& t) { return digamma(t); });
}
const Tensor& erf_(const Tensor& x) {
  return direct(x, UnaryOp::erf, [](const Tensor& t) { return erf(t); });
}
const Tensor& erfc_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return erfc(t); });
}
const Tensor& erfinv_(const Tensor& x) {
  return direct(x, UnaryOp::erfinv, [](const Tensor& t) { return erfinv(t); });
}
const Tensor& exp2_(const Tensor& x) {
  return direct(x, UnaryOp::exp2, [](const Tensor& t) { return exp2(t); });
}
const Tensor& expm1_(const Tensor& x) {
  return direct(x, UnaryOp::expm1, [](const Tensor& t) { return expm1(t); });
}
const Tensor& floor_(const Tensor& x) {
  return direct(x, UnaryOp::floor, [](const Tensor& t) { return floor(t); });
}
const Tensor& frac_(const Tensor& x) {
  return direct(x, UnaryOp::frac, [](const Tensor& t) { return frac(t); });
}
const Tensor& lgamma_(const Tensor& x) {
  return direct(x, UnaryOp::lgamma, [](const Tensor& t) { return lgamma(t); });
}
const Tensor& log_(const Tensor& x) {
  return direct(x, UnaryOp::log, [](const Tensor& t) { return log(t); });
}
const Tensor& log10_(const Tensor& x) {
  return direct(x, UnaryOp::log10, [](const Tensor& t) { return log10(t); });
}
const Tensor& log1p_(const Tensor& x) {
  return direct(x, UnaryOp::log1p, [](const Tensor& t) { return log1p(t); });
}
const Tensor& log2_(const Tensor& x) {
  return direct(x, UnaryOp::log2, [](const Tensor& t) { return log2(t); });
}
const Tensor& rad2deg_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return rad2deg(t); });
}
const Tensor& reciprocal_(const Tensor& x) {
  return direct(x, UnaryOp::reciprocal, [](const Tensor& t) { return reciprocal(t); });
}
const Tensor& round_(const Tensor& x) {
  return direct(x, UnaryOp::round, [](const Tensor& t) { return round(t); });
}
const Tensor& rsqrt_(const Tensor& x) {
  return direct(x, UnaryOp::rsqrt, [](const Tensor& t) { return rsqrt(t); });
}
const Tensor& sgn_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return sgn(t); });
}
const Tensor& sign_(const Tensor& x) {
  return direct(x, UnaryOp::sign, [](const Tensor& t) { return sign(t); });
}
const Tensor& sin_(const Tensor& x) {
  return direct(x, UnaryOp::sin, [](const Tensor& t) { return sin(t); });
}
const Tensor& sinc_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return sinc(t); });
}
const Tensor& sinh_(const Tensor& x) {
  return direct(x, UnaryOp::sinh, [](const Tensor& t) { return sinh(t); });
}
const Tensor& square_(const Tensor& x) {
  return direct(x, UnaryOp::square, [](const Tensor& t) { return square(t); });
}
const Tensor& tan_(const Tensor& x) {
  return direct(x, UnaryOp::tan, [](const Tensor& t) { return tan(t); });
}
const Tensor& trunc_(const Tensor& x) {
  return direct(x, UnaryOp::trunc, [](const Tensor& t) { return trunc(t); });
}
const Tensor& bitwise_not_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return bitwise_not(t); });
}
const Tensor& logical_not_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return logical_not(t); });
}
const Tensor& elu_(const Tensor& x, double alpha) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return elu(t, alpha); });
}
const Tensor& celu_(const Tensor& x, double alpha) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return celu(t, alpha); });
}
const Tensor& selu_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return selu(t); });
}
const Tensor& leaky_relu_(const Tensor& x, double slope) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return leaky_relu(t, slope); });
}
const Tensor& hardtanh_(const Tensor& x, double low, double high) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardtanh(t, low, high); });
}
const Tensor& relu6_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return relu6(t); });
}
const Tensor& hardswish_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardswish(t); });
}
const Tensor& hardsigmoid_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardsigmoid(t); });
}
const Tensor& silu_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return silu(t); });
}
const Tensor& mish_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return mish(t); });
}
const Tensor& threshold_(const Tensor& x, double limit, double value) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return threshold(t, limit, value); });
}
const Tensor& nan_to_num_(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return nan_to_num(t, nan, posinf, neginf); });
}
const Tensor& logit_(const Tensor& x, std::optional<double> eps) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return logit(t, eps); });
}
const Tensor& atan2_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return atan2(t, other); });
}
const Tensor& bitwise_and_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_and(t, other); });
}
const Tensor& bitwise_or_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_or(t, other); });
}
const Tensor& bitwise_xor_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_xor(t, other); });
}
const Tensor& copysign_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return copysign(t, other); });
}
const Tensor& eq_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return eq(t, other).to(x.dtype()); });
}
const Tensor& floor_divide_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return floor_divide(t, other); });
}
const Tensor& fmod_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return fmod(t, other); });
}
const Tensor& ge_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ge(t, other).to(x.dtype()); });
}
const Tensor& gt_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return gt(t, other).to(x.dtype()); });
}
const Tensor& heaviside_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return heaviside(t, other); });
}
const Tensor& hypot_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return hypot(t, other); });
}
const Tensor& ldexp_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ldexp(t, other); });
}
const Tensor& le_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return le(t, other).to(x.dtype()); });
}
const Tensor& logical_and_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_and(t, other).to(x.dtype()); });
}
const Tensor& logical_or_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_or(t, other).to(x.dtype()); });
}
const Tensor& logical_xor_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_xor(t, other).to(x.dtype()); });
}
const Tensor& lt_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return lt(t, other).to(x.dtype()); });
}
const Tensor& ne_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ne(t, other).to(x.dtype()); });
}
const Tensor& pow_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return pow(t, other); });
}
const Tensor& remainder_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return remainder(t, other); });
}
const Tensor& xlogy_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return xlogy(t, other); });
}
const Tensor& eq_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return eq(t, other).to(x.dtype()); });
}
const Tensor& ge_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return ge(t, other).to(x.dtype()); });
}
const Tensor& gt_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return gt(t, other).to(x.dtype()); });
}
const Tensor& le_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return le(t, other).to(x.dtype()); });
}
const Tensor& lt_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return lt(t, other).to(x.dtype()); });
}
const Tensor& ne_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return ne(t, other).to(x.dtype()); });
}

const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high) {
  return in_place(x, needs_grad(x, low, high), [&](const Tensor& t) { return clamp(t, low, high); });
}
const Tensor& lerp_(const Tensor& x, const Tensor& end, const Tensor& weight) {
  return in_place(x, needs_grad(x, end, weight), [&](const Tensor& t) { return lerp(t, end, weight); });
}

const Tensor& cumsum_(const Tensor& x, std::int64_t dim) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return cumsum(t, dim, x.dtype()); });
}
const Tensor& cumprod_(const Tensor& x, std::int64_t dim) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return cumprod(t, dim, x.dtype()); });
}
const Tensor& tril_(const Tensor& x, std::int64_t diagonal) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return tril(t, diagonal); });
}
const Tensor& triu_(const Tensor& x, std::int64_t diagonal) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return triu(t, diagonal); });
}

namespace {

/// A view of the main diagonal's elements.
Tensor main_diagonal(const Tensor& x, bool wrap) {
  if (x.dim() < 2) throw Error(ErrorCode::runtime, "dimensions must larger than 1");
  std::int64_t step = 0, length = x.size(0);
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (x.dim() > 2 && x.size(d) != x.size(0)) {
      throw Error(ErrorCode::runtime, "all dimensions of input must be of equal length");
    }
    step += x.stride(d);
    length = std::min(length, x.size(d));
  }
  if (!wrap || x.dim() != 2 || x.size(0) <= x.size(1) + 1 || !x.is_contiguous()) {
    return x.as_strided({length}, {step}, x.storage_offset());
  }
  return x.as_strided({(x.numel() + step - 1) / step}, {step}, x.storage_offset());
}

}  // namespace

const Tensor& fill_diagonal_(const Tensor& x, Scalar value, bool wrap) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) {
    return composed("FillDiagonalBackward0", {t}, [=](const TensorList& in) {
      Tensor copy = in[0].clone();
      main_diagonal(copy, wrap).fill_(value);
      return copy;
    });
  });
}
const Tensor& addmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, a, b), [&](const Tensor& t) { return addmm(t, a, b, beta, alpha); });
}
const Tensor& addmv_(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, matrix, vector),
                  [&](const Tensor& t) { return addmv(t, matrix, vector, beta, alpha); });
}
const Tensor& baddbmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, a, b), [&](const Tensor& t) { return baddbmm(t, a, b, beta, alpha); });
}
const Tensor& renorm_(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return renorm(t, p, dim, maxnorm); });
}

const Tensor& index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  return in_place(x, needs_grad(x, from), [&](const Tensor& t) { return index_copy(t, dim, index, from); });
}
const Tensor& index_fill_(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return index_fill(t, dim, index, value); });
}
const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source) {
  return in_place(x, needs_grad(x, source), [&](const Tensor& t) { return masked_scatter(t, mask, source); });
}
const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  return in_place(x, needs_grad(x, source), [&](const Tensor& t) { return put(t, index, source, accumulate); });
}
const Tensor& scatter_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                              const std::string& reduce, bool include_self) {
  return in_place(x, needs_grad(x, from),
                  [&](const Tensor& t) { return scatter_reduce(t, dim, index, from, reduce, include_self); });
}

const Tensor& Tensor::pow_(Scalar exponent) const {
  return in_place(*this, needs_grad(*this), [&](const Tensor& t) { return core::pow(t, exponent); });
}
const Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& from, Scalar alpha) const {
  detail::check_index_add_dtype(*this, from);
  const Tensor scaled = alpha.to_double() == 1 ? from : from * alpha;
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::index_add(t, dim, index, scaled); },
      [&] { raw::index_into(IndexOp::accumulate, *this, dim, index, scaled); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Tensor& from) const {
  detail::check_scatter_dtype(*this, from);
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::scatter(t, dim, index, from); },
      [&] { raw::scatter_into(IndexOp::put, *this, dim, index, from); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, Scalar value) const {
  return in_place(*this, needs_grad(*this), [&](const Tensor& t) { return core::scatter(t, dim, index, value); });
}
const Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& from) const {
  detail::check_scatter_dtype(*this, from);
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::scatter_add(t, dim, index, from); },
      [&] { raw::scatter_into(IndexOp::accumulate, *this, dim, index, from); });
}

}  // namespace core

#include "libcore/distributions/multivariate_normal.h"

#include <cmath>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {
namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);

Shape without_last(const Tensor& x, std::size_t count) {
  return Shape(x.sizes().span().first(x.sizes().size() - count));
}

/// L of the inverse of P = U^T U, without P's inverse.
Tensor factor_of_precision(const Tensor& precision) {
  const Tensor turned = linalg::cholesky(flip(precision, {-2, -1}));
  const Tensor inverse = flip(turned, {-2, -1}).transpose(-2, -1);
  const Tensor ones = eye(precision.size(-1), {}, {.dtype = precision.dtype(), .device = precision.device()});
  return linalg::solve_triangular(inverse, ones, {.upper = false});
}

}  // namespace

int NormalMatrix::count() const {
  return static_cast<int>(covariance_matrix.defined()) + static_cast<int>(precision_matrix.defined()) +
         static_cast<int>(scale_tril.defined());
}

const char* NormalMatrix::name() const {
  if (scale_tril.defined()) return "scale_tril";
  return covariance_matrix.defined() ? "covariance_matrix" : "precision_matrix";
}

const Tensor& NormalMatrix::matrix() const {
  if (scale_tril.defined()) return scale_tril;
  return covariance_matrix.defined() ? covariance_matrix : precision_matrix;
}

Tensor NormalMatrix::factor() const {
  if (scale_tril.defined()) return scale_tril;
  return covariance_matrix.defined() ? linalg::cholesky(covariance_matrix) : factor_of_precision(precision_matrix);
}

NormalMatrix NormalMatrix::expanded(const Shape& batch_shape) const {
  NormalMatrix result(*this);
  for (Tensor* each : {&result.covariance_matrix, &result.precision_matrix, &result.scale_tril}) {
    if (each->defined()) *each = each->expand(joined(batch_shape, {-1, -1}));
  }
  return result;
}

Distribution::Parameter NormalMatrix::parameter() const {
  return {name(), matrix(), scale_tril.defined() ? constraints::lower_cholesky() : constraints::positive_definite()};
}

MultivariateNormal::MultivariateNormal(const Tensor& loc, const Tensor& covariance_matrix, const Options& options)
    : MultivariateNormal(
          loc, NormalMatrix{.covariance_matrix = covariance_matrix, .validate_args = options.validate_args}) {}

MultivariateNormal::MultivariateNormal(const Tensor& loc, const NormalMatrix& matrix)
    : DistributionOf(Shape(), Shape(), matrix.validate_args), given_(matrix) {
  if (loc.dim() < 1) throw Error(ErrorCode::value, "loc must be at least one-dimensional.");
  if (given_.count() != 1) {
    throw Error(ErrorCode::value,
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.");
  }
  const Tensor whole = given_.matrix();
  if (whole.dim() < 2) {
    const std::string name = given_.scale_tril.defined() ? "scale_tril matrix" : given_.name();
    throw Error(ErrorCode::value, name + " must be at least two-dimensional, with optional leading batch dimensions");
  }
  const Shape batch = broadcast_shapes(without_last(whole, 2), without_last(loc, 1));
  loc_ = loc.expand(joined(batch, {-1}));
  set_shapes(loc_.sizes(), 1);
  given_ = given_.expanded(batch);
  validate();
  factor_ = matrix.factor();
}

MultivariateNormal MultivariateNormal::expand(const Shape& batch_shape) const {
  MultivariateNormal result(*this);
  result.set_batch_shape(batch_shape);
  result.loc_ = loc_.expand(joined(batch_shape, event_shape()));
  result.given_ = given_.expanded(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> MultivariateNormal::parameters() const {
  return {{"loc", loc_, constraints::real_vector()}, given_.parameter()};
}

Tensor MultivariateNormal::scale_tril() const {
  return given_.scale_tril.defined() ? given_.scale_tril : factor_.expand(matrix_shape());
}
Tensor MultivariateNormal::covariance_matrix() const {
  if (given_.covariance_matrix.defined()) return given_.covariance_matrix;
  return matmul(factor_, factor_.mT()).expand(matrix_shape());
}
Tensor MultivariateNormal::precision_matrix() const {
  if (given_.precision_matrix.defined()) return given_.precision_matrix;
  return cholesky_inverse(factor_).expand(matrix_shape());
}

Tensor MultivariateNormal::variance() const {
  return factor_.pow(2).sum(-1).expand(joined(batch_shape(), event_shape()));
}

Tensor MultivariateNormal::rsample(const Shape& sample_shape) const {
  const Tensor noise = empty(extended_shape(sample_shape), {.dtype = loc_.dtype(), .device = loc_.device()});
  normal_(noise);
  return loc_ + matmul(factor_, noise.unsqueeze(-1)).squeeze(-1);
}

Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor distance = batch_mahalanobis(factor_, value - loc_);
  return (distance + static_cast<double>(event_shape()[0]) * kLogTwoPi) * -0.5 - half_log_det(factor_);
}

Tensor MultivariateNormal::entropy() const {
  const Tensor each = half_log_det(factor_) + 0.5 * static_cast<double>(event_shape()[0]) * (1 + kLogTwoPi);
  return batch_shape().empty() ? each : each.expand(batch_shape());
}

Tensor batch_mahalanobis(const Tensor& factor, const Tensor& x) {
  if (factor.dim() == 2) {  // one matrix for all: one solve
    const Tensor columns = x.reshape({-1, x.size(-1)}).t();
    const Tensor solved = linalg::solve_triangular(factor, columns, {.upper = false});
    return solved.pow(2).sum(0).reshape(without_last(x, 1));
  }
  return linalg::solve_triangular(factor, x.unsqueeze(-1), {.upper = false}).pow(2).sum(-2).squeeze(-1);
}

Tensor half_log_det(const Tensor& factor) {
  return factor.diagonal(0, -2, -1).log().sum(-1);
}

}  // namespace core::distributions

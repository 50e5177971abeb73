#include "libcore/distributions/low_rank_multivariate_normal.h"

#include <cmath>
#include <numbers>
#include <sstream>

#include "libcore/base/error.h"
#include "libcore/distributions/multivariate_normal.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

Tensor standard_normal(const Shape& sizes, const Tensor& like) {
  const Tensor noise = empty(sizes, {.dtype = like.dtype(), .device = like.device()});
  normal_(noise);
  return noise;
}

Tensor times_vector(const Tensor& matrix, const Tensor& vector) {
  return matmul(matrix, vector.unsqueeze(-1)).squeeze(-1);
}

Tensor with_ones_added(const Tensor& matrix) {
  return matrix + eye(matrix.size(-1), {}, {.dtype = matrix.dtype(), .device = matrix.device()});
}

/// W^T diag(1 / d).
Tensor scaled_turned(const Tensor& factor, const Tensor& diag) {
  return factor.mT() / diag.unsqueeze(-2);
}

void check_shapes(const Tensor& loc, const Tensor& factor, const Tensor& diag) {
  const auto refuse = [](const std::string& text) { throw Error(ErrorCode::value, text); };
  if (loc.dim() < 1) refuse("loc must be at least one-dimensional.");
  if (factor.dim() < 2) {
    refuse("cov_factor must be at least two-dimensional, with optional leading batch dimensions");
  }
  const std::int64_t n = loc.size(-1);
  if (factor.size(-2) != n) {
    refuse("cov_factor must be a batch of matrices with shape " + std::to_string(n) + " x m");
  }
  if (diag.dim() >= 1 && diag.size(-1) == n) return;
  std::ostringstream text;
  text << "cov_diag must be a batch of vectors with shape " << Shape{n};
  refuse(text.str());
}

std::vector<Tensor> broadcast_parts(const Tensor& loc, const Tensor& factor, const Tensor& diag) {
  try {
    return broadcast_tensors({loc.unsqueeze(-1), factor, diag.unsqueeze(-1)});
  } catch (const Error&) {
    std::ostringstream text;
    text << "Incompatible batch shapes: loc " << loc.sizes() << ", cov_factor " << factor.sizes() << ", cov_diag "
         << diag.sizes();
    throw Error(ErrorCode::value, text.str());
  }
}

}  // namespace

LowRankMultivariateNormal::LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor,
                                                     const Tensor& cov_diag, const Options& options)
    : DistributionOf(Shape(), Shape(), options.validate_args), factor_(cov_factor), diag_(cov_diag) {
  check_shapes(loc, cov_factor, cov_diag);
  const std::vector<Tensor> parts = broadcast_parts(loc, cov_factor, cov_diag);
  loc_ = parts[0].select(-1, 0);
  cov_factor_ = parts[1];
  cov_diag_ = parts[2].select(-1, 0);
  set_shapes(loc_.sizes(), 1);
  capacitance_tril_ = linalg::cholesky(with_ones_added(matmul(scaled_turned(factor_, diag_), factor_)));
  validate();
}

LowRankMultivariateNormal LowRankMultivariateNormal::expand(const Shape& batch_shape) const {
  LowRankMultivariateNormal result(*this);
  const Shape sizes = joined(batch_shape, event_shape());
  result.loc_ = loc_.expand(sizes);
  result.cov_diag_ = cov_diag_.expand(sizes);
  result.cov_factor_ = cov_factor_.expand(joined(sizes, {cov_factor_.size(-1)}));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> LowRankMultivariateNormal::parameters() const {
  return {{"loc", loc_, constraints::real_vector()},
          {"cov_factor", cov_factor_, constraints::independent(constraints::real(), 2)},
          {"cov_diag", cov_diag_, constraints::independent(constraints::positive(), 1)}};
}

Tensor LowRankMultivariateNormal::variance() const {
  return (factor_.pow(2).sum(-1) + diag_).expand(joined(batch_shape(), event_shape()));
}

Tensor LowRankMultivariateNormal::covariance_matrix() const {
  return (matmul(factor_, factor_.mT()) + diag_embed(diag_)).expand(matrix_shape());
}

Tensor LowRankMultivariateNormal::precision_matrix() const {
  const Tensor a = precision_factor();
  return (diag_embed(diag_.reciprocal()) - matmul(a.mT(), a)).expand(matrix_shape());
}

/// As sqrt(d) @ cholesky(I + ...), of a matrix that has no eigenvalue below 1.
Tensor LowRankMultivariateNormal::scale_tril() const {
  const Tensor root = diag_.sqrt().unsqueeze(-1);
  const Tensor scaled = factor_ / root;
  return (root * linalg::cholesky(with_ones_added(matmul(scaled, scaled.mT())))).expand(matrix_shape());
}

Tensor LowRankMultivariateNormal::precision_factor() const {
  return linalg::solve_triangular(capacitance_tril_, scaled_turned(factor_, diag_), {.upper = false});
}

Tensor LowRankMultivariateNormal::log_det() const {
  return half_log_det(capacitance_tril_) * 2 + diag_.log().sum(-1);
}

/// By Woodbury's identity.
Tensor LowRankMultivariateNormal::mahalanobis(const Tensor& x) const {
  const Tensor turned = times_vector(scaled_turned(factor_, diag_), x);
  return (x.pow(2) / diag_).sum(-1) - batch_mahalanobis(capacitance_tril_, turned);
}

Tensor LowRankMultivariateNormal::rsample(const Shape& sample_shape) const {
  const Shape sizes = extended_shape(sample_shape);
  const Shape of_factor = joined(first_dims(sizes, sizes.size() - 1), {cov_factor_.size(-1)});
  const Tensor in_factor = standard_normal(of_factor, loc_), apart = standard_normal(sizes, loc_);
  return loc_ + times_vector(factor_, in_factor) + diag_.sqrt() * apart;
}

Tensor LowRankMultivariateNormal::log_prob(const Tensor& value) const {
  check_sample(value);
  const double constant = static_cast<double>(event_shape()[0]) * std::log(2 * std::numbers::pi);
  return (log_det() + constant + mahalanobis(value - loc_)) * -0.5;
}

Tensor LowRankMultivariateNormal::entropy() const {
  const double constant = static_cast<double>(event_shape()[0]) * (1.0 + std::log(2 * std::numbers::pi));
  const Tensor each = (log_det() + constant) * 0.5;
  return batch_shape().empty() ? each : each.expand(batch_shape());
}

}  // namespace core::distributions

#include "libcore/distributions/matrices.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/special.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {
namespace {

const double kLogTwo = std::log(2.0);

/// 0 .. count - 1.
Tensor numbers_like(std::int64_t count, const Tensor& like) {
  return arange(count, {.dtype = like.dtype(), .device = like.device()});
}

/// The derivative of the logarithm of the gamma function of p dimensions.
Tensor multivariate_digamma(const Tensor& x, std::int64_t p) {
  if (!(x > static_cast<double>(p - 1) / 2).all().item<bool>()) {
    throw Error(ErrorCode::assertion, "Wrong domain for multivariate digamma function.");
  }
  return digamma(x.unsqueeze(-1) - numbers_like(p, x) / 2).sum(-1);
}

/// The squared lengths of the rows of a Cholesky factor without their diagonal, by the onion method.
Beta row_lengths(std::int64_t dim, const Tensor& concentration) {
  if (dim < 2) {
    throw Error(ErrorCode::value,
                "Expected dim to be an integer greater than or equal to 2. Found dim=" + std::to_string(dim) + ".");
  }
  const Tensor marginal = concentration + 0.5 * static_cast<double>(dim - 2);
  const Tensor numbers = numbers_like(dim - 1, concentration);
  const Tensor offset = cat({zeros_like(numbers.narrow(0, 0, 1)), numbers});
  return Beta(offset + 0.5, marginal.unsqueeze(-1) - offset * 0.5);
}

}  // namespace

Wishart::Wishart(const Argument& df, const NormalMatrix& matrix)
    : DistributionOf(Shape(), Shape(), matrix.validate_args) {
  if (matrix.count() != 1) {
    throw Error(ErrorCode::assertion,
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.");
  }
  const Tensor& whole = matrix.matrix();
  if (whole.dim() < 2) {
    throw Error(ErrorCode::value,
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions");
  }
  Shape batch = first_dims(whole.sizes(), whole.sizes().size() - 2);
  if (!df.is_number()) batch = broadcast_shapes(batch, df.sizes());
  df_ = df.is_number() ? df.tensor(whole) : df.tensor().expand(batch);
  const std::int64_t least = whole.size(-1) - 1;
  if ((df_ <= least).any().item<bool>()) {
    throw Error(ErrorCode::value,
                "Value of df=" + df.str() + " expected to be greater than ndim - 1 = " + std::to_string(least) + ".");
  }
  given_ = matrix.expanded(batch);
  if ((df_ < whole.size(-1)).any().item<bool>()) {
    warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.");
  }
  set_shapes(given_.matrix().sizes(), 2);
  validate();
  factor_ = matrix.factor();
}

Wishart Wishart::expand(const Shape& batch_shape) const {
  Wishart result(*this);
  result.df_ = df_.expand(batch_shape);
  result.given_ = given_.expanded(batch_shape);
  result.factor_ = factor_.expand(joined(batch_shape, event_shape()));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Wishart::parameters() const {
  return {given_.parameter(), {"df", df_, constraints::greater_than(n() - 1)}};
}

Tensor Wishart::scale_tril() const {
  return given_.scale_tril.defined() ? given_.scale_tril : factor_.expand(matrix_shape());
}
Tensor Wishart::covariance_matrix() const {
  if (given_.covariance_matrix.defined()) return given_.covariance_matrix;
  return matmul(factor_, factor_.mT()).expand(matrix_shape());
}
Tensor Wishart::precision_matrix() const {
  if (given_.precision_matrix.defined()) return given_.precision_matrix;
  const Tensor ones = eye(n(), {}, {.dtype = factor_.dtype(), .device = factor_.device()});
  return cholesky_solve(ones, factor_).expand(matrix_shape());
}

Tensor Wishart::mean() const {
  return df_.view(joined(batch_shape(), {1, 1})) * covariance_matrix();
}
Tensor Wishart::mode() const {
  const Tensor factor = df_ - n() - 1;
  return factor.masked_fill(factor <= 0, std::numeric_limits<double>::quiet_NaN()).view(joined(batch_shape(), {1, 1})) *
         covariance_matrix();
}
Tensor Wishart::variance() const {
  const Tensor v = covariance_matrix(), diagonal = v.diagonal(0, -2, -1);
  return df_.view(joined(batch_shape(), {1, 1})) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2));
}

Chi2 Wishart::diagonal_squares() const {
  return Chi2(df_.unsqueeze(-1) - numbers_like(n(), factor_).expand(joined(batch_shape(), {-1})));
}

Tensor Wishart::bartlett_sample(const Shape& sample_shape) const {
  const Tensor roots = diagonal_squares().rsample(sample_shape).sqrt();
  const Tensor noise = diag_embed(roots.clamp(finfo(roots.dtype()).eps));
  const Tensor places = tril_indices(n(), n(), -1);
  const Tensor below = randn(joined(joined(sample_shape, batch_shape()), {n() * (n() - 1) / 2}),
                             {.dtype = noise.dtype(), .device = noise.device()});
  const Tensor factor = matmul(factor_, index_put(noise, {Ellipsis(), places[0], places[1]}, below));
  return matmul(factor, factor.mT());
}

Tensor Wishart::any_of_batch(const Tensor& of_each) const {
  return batch_shape().empty() ? of_each : of_each.flatten(-static_cast<std::int64_t>(batch_shape().size())).any(-1);
}

Tensor Wishart::rsample(const Shape& sample_shape) const {
  constexpr int kTries = 10;
  const Constraint definite = support();
  Tensor sample = bartlett_sample(sample_shape);
  Tensor again = any_of_batch(definite.check(sample));
  if (!again.any().item<bool>()) return sample;
  warn("Singular sample detected.");
  for (int i = 0; i < kTries && again.any().item<bool>(); ++i) {
    const Tensor fresh = bartlett_sample({again.sum().item<std::int64_t>()});
    sample = index_put(sample, {again}, fresh);
    again = index_put(again, {again}, any_of_batch(logical_not(definite.check(fresh))));
  }
  return sample;
}

Tensor Wishart::log_prob(const Tensor& value) const {
  check_sample(value);
  const double p = static_cast<double>(n());
  const Tensor norm = df_ * (half_log_det(factor_) + p * kLogTwo / 2) + mvlgamma(df_ / 2, n());
  const Tensor trace = cholesky_solve(value, factor_).diagonal(0, -2, -1).sum(-1);
  return (df_ - p - 1) / 2 * linalg::slogdet(value).logabsdet - norm - trace / 2;
}

Tensor Wishart::entropy() const {
  const double p = static_cast<double>(n());
  const Tensor size = (half_log_det(factor_) + p * kLogTwo / 2) * (p + 1);
  return size + mvlgamma(df_ / 2, n()) - (df_ - p - 1) / 2 * multivariate_digamma(df_ / 2, n()) + df_ * p / 2;
}

std::vector<Tensor> Wishart::natural_params() const {
  return {-precision_matrix() / 2, (df_ - n() - 1) / 2};
}

Tensor Wishart::log_normalizer(const std::vector<Tensor>& params) const {
  const double p = static_cast<double>(n());
  const Tensor half_df = params[1] + (p + 1) / 2;
  return half_df * (-linalg::slogdet(params[0] * -2).logabsdet + kLogTwo * p) + mvlgamma(half_df, n());
}

LKJCholesky::LKJCholesky(std::int64_t dim, const Argument& concentration, const Options& options)
    : DistributionOf(concentration.sizes(), Shape({dim, dim}), options.validate_args),
      concentration_(concentration.tensor()),
      squared_lengths_(row_lengths(dim, concentration_)) {
  validate();
}

LKJCholesky LKJCholesky::expand(const Shape& batch_shape) const {
  LKJCholesky result(*this);
  result.concentration_ = concentration_.expand(batch_shape);
  result.squared_lengths_ = squared_lengths_.expand(joined(batch_shape, {dim()}));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> LKJCholesky::parameters() const {
  return {{"concentration", concentration_, constraints::positive()}};
}

Tensor LKJCholesky::sample(const Shape& sample_shape) const {
  const Tensor squares = squared_lengths_.sample(sample_shape).unsqueeze(-1);
  const RandomOptions like{.dtype = squares.dtype(), .device = squares.device()};
  const Tensor noise = tril(randn(extended_shape(sample_shape), like), -1);
  const Tensor directions = noise / noise.norm(2, -1, true);
  directions.select(-2, 0).fill_(0.0);  // 0 / 0
  const Tensor rows = squares.sqrt() * directions;
  return rows + diag_embed((1 - rows.pow(2).sum(-1)).clamp(finfo(rows.dtype()).tiny).sqrt());
}

Tensor LKJCholesky::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::int64_t below = dim() - 1;
  const Tensor diagonal = value.diagonal(0, -1, -2).slice(-1, 1);
  const Tensor row = arange(2, dim() + 1, {.device = concentration_.device()});
  const Tensor powers = ((concentration_ - 1).unsqueeze(-1) * 2 + dim()) - row;
  const Tensor alpha = concentration_ + 0.5 * static_cast<double>(below);
  const Tensor norm = mvlgamma(alpha - 0.5, below) - lgamma(alpha) * below +
                      0.5 * static_cast<double>(below) * std::log(std::numbers::pi);
  return (powers * diagonal.log()).sum(-1) - norm;
}

}  // namespace core::distributions

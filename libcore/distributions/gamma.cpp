#include "libcore/distributions/gamma.h"

#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/special.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random_draws.h"

namespace core::distributions {
namespace {

Tensor half(const Argument& df) {
  return df.is_number() ? Argument(0.5 * df.number()).tensor() : df.tensor() * 0.5;
}

Dirichlet dirichlet_of(const Argument& first, const Argument& second, const Options& options) {
  return Dirichlet(stack(broadcast_all({first, second}), -1), options);
}

}  // namespace

Gamma::Gamma(const Argument& concentration, const Argument& rate, const Options& options)
    : Gamma(broadcast_all({concentration, rate}), options) {
  validate();
}

Gamma::Gamma(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(both[0].sizes(), Shape(), options.validate_args), concentration_(both[0]), rate_(both[1]) {}

void Gamma::repeat_to(const Shape& batch_shape) {
  concentration_ = concentration_.expand(batch_shape);
  rate_ = rate_.expand(batch_shape);
  set_batch_shape(batch_shape);
}

Gamma Gamma::expand(const Shape& batch_shape) const {
  Gamma result(*this);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Gamma::parameters() const {
  return {{"concentration", concentration_, constraints::positive()}, {"rate", rate_, constraints::positive()}};
}

Tensor Gamma::mean() const {
  return concentration_ / rate_;
}
Tensor Gamma::mode() const {
  return ((concentration_ - 1) / rate_).clamp(0);
}
Tensor Gamma::variance() const {
  return concentration_ / rate_.pow(2);
}

Tensor Gamma::rsample(const Shape& sample_shape) const {
  const Shape sizes = extended_shape(sample_shape);
  const Tensor value = standard_gamma(concentration_.expand(sizes)) / rate_.expand(sizes);
  value.detach().clamp_(finfo(value.dtype()).tiny);
  return value;
}

Tensor Gamma::log_prob(const Tensor& given) const {
  const Tensor value = given.to(rate_);
  check_sample(value);
  return xlogy(concentration_, rate_) + xlogy(concentration_ - 1, value) - rate_ * value - lgamma(concentration_);
}

Tensor Gamma::cdf(const Tensor& value) const {
  check_sample(value);
  return special::gammainc(concentration_, rate_ * value);
}

Tensor Gamma::entropy() const {
  return concentration_ - rate_.log() + lgamma(concentration_) + (1 - concentration_) * digamma(concentration_);
}

std::vector<Tensor> Gamma::natural_params() const {
  return {concentration_ - 1, -rate_};
}
Tensor Gamma::log_normalizer(const std::vector<Tensor>& params) const {
  return lgamma(params[0] + 1) + (params[0] + 1) * (-params[1].reciprocal()).log();
}

Chi2::Chi2(const Argument& df, const Options& options) : DistributionOf(broadcast_all({half(df), 0.5}), options) {
  validate();
}

Chi2 Chi2::expand(const Shape& batch_shape) const {
  Chi2 result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Chi2::df() const {
  return concentration() * 2;
}

std::vector<Distribution::Parameter> Chi2::parameters() const {
  return {{"df", df(), constraints::positive(), false}};
}

Dirichlet::Dirichlet(const Tensor& concentration, const Options& options)
    : DistributionOf(Shape(), Shape(), options.validate_args), concentration_(concentration) {
  if (concentration.dim() < 1) {
    throw Error(ErrorCode::value, "`concentration` parameter must be at least one-dimensional.");
  }
  set_shapes(concentration.sizes(), 1);
  validate();
}

Dirichlet Dirichlet::expand(const Shape& batch_shape) const {
  Dirichlet result(*this);
  result.concentration_ = concentration_.expand(joined(batch_shape, event_shape()));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Dirichlet::parameters() const {
  return {{"concentration", concentration_, constraints::independent(constraints::positive(), 1)}};
}

Tensor Dirichlet::mean() const {
  return concentration_ / concentration_.sum(-1, true);
}

Tensor Dirichlet::mode() const {
  const Tensor above = (concentration_ - 1).clamp(0.0);
  const Tensor inside = above / above.sum(-1, true);
  const Tensor at_corner = (concentration_ < 1).all(-1, true);
  return where(at_corner, one_hot(inside.argmax(-1), inside.size(-1)).to(inside), inside);
}

Tensor Dirichlet::variance() const {
  const Tensor total = concentration_.sum(-1, true);
  return concentration_ * (total - concentration_) / (total.pow(2) * (total + 1));
}

Tensor Dirichlet::rsample(const Shape& sample_shape) const {
  return sample_dirichlet(concentration_.expand(extended_shape(sample_shape)));
}

Tensor Dirichlet::log_prob(const Tensor& value) const {
  check_sample(value);
  return xlogy(concentration_ - 1.0, value).sum(-1) + lgamma(concentration_.sum(-1)) - lgamma(concentration_).sum(-1);
}

Tensor Dirichlet::entropy() const {
  const std::int64_t k = concentration_.size(-1);
  const Tensor total = concentration_.sum(-1);
  return lgamma(concentration_).sum(-1) - lgamma(total) - (k - total) * digamma(total) -
         ((concentration_ - 1.0) * digamma(concentration_)).sum(-1);
}

std::vector<Tensor> Dirichlet::natural_params() const {
  return {concentration_};
}
Tensor Dirichlet::log_normalizer(const std::vector<Tensor>& params) const {
  return lgamma(params[0]).sum(-1) - lgamma(params[0].sum(-1));
}

Beta::Beta(const Argument& concentration1, const Argument& concentration0, const Options& options)
    : Beta(dirichlet_of(concentration1, concentration0, options), options) {}

Beta::Beta(const Dirichlet& both, const Options& options)
    : DistributionOf(both.batch_shape(), Shape(), options.validate_args), both_(both) {
  validate();
}

Beta Beta::expand(const Shape& batch_shape) const {
  Beta result(*this);
  result.both_ = both_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Beta::parameters() const {
  return {{"concentration1", concentration1(), constraints::positive(), false},
          {"concentration0", concentration0(), constraints::positive(), false}};
}

Tensor Beta::concentration1() const {
  return both_.concentration().select(-1, 0);
}
Tensor Beta::concentration0() const {
  return both_.concentration().select(-1, 1);
}

Tensor Beta::mean() const {
  return concentration1() / (concentration1() + concentration0());
}
Tensor Beta::mode() const {
  return both_.mode().select(-1, 0);
}
Tensor Beta::variance() const {
  const Tensor total = concentration1() + concentration0();
  return concentration1() * concentration0() / (total.pow(2) * (total + 1));
}

Tensor Beta::rsample(const Shape& sample_shape) const {
  return both_.rsample(sample_shape).select(-1, 0);
}

Tensor Beta::log_prob(const Tensor& value) const {
  check_sample(value);
  return both_.log_prob(stack({value, 1.0 - value}, -1));
}

Tensor Beta::entropy() const {
  return both_.entropy();
}

std::vector<Tensor> Beta::natural_params() const {
  return {concentration1(), concentration0()};
}
Tensor Beta::log_normalizer(const std::vector<Tensor>& params) const {
  return lgamma(params[0]) + lgamma(params[1]) - lgamma(params[0] + params[1]);
}

}  // namespace core::distributions

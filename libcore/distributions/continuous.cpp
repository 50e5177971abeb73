#include "libcore/distributions/continuous.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

Tensor empty_of(const Shape& sizes, const Tensor& like) {
  return empty(sizes, {.dtype = like.dtype(), .device = like.device()});
}
Tensor full_of(const Shape& sizes, double value, const Tensor& like) {
  return full(sizes, value, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

LocationScale::LocationScale(const Argument& loc, const Argument& scale, const Options& options)
    : LocationScale(broadcast_all({loc, scale}), options) {}

LocationScale::LocationScale(const std::vector<Tensor>& both, const Options& options)
    : Distribution(both[0].sizes(), {}, options.validate_args), loc_(both[0]), scale_(both[1]) {}

void LocationScale::repeat_to(const Shape& batch_shape) {
  loc_ = loc_.expand(batch_shape);
  scale_ = scale_.expand(batch_shape);
  set_batch_shape(batch_shape);
}

std::vector<Distribution::Parameter> LocationScale::parameters() const {
  return {{"loc", loc_, constraints::real()}, {"scale", scale_, constraints::positive()}};
}

Normal::Normal(const Argument& loc, const Argument& scale, const Options& options)
    : DistributionOf(loc, scale, options) {
  validate();
}

Normal Normal::expand(const Shape& batch_shape) const {
  Normal result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Normal::variance() const {
  return scale().pow(2);
}

Tensor Normal::sample(const Shape& sample_shape) const {
  const Shape sizes = extended_shape(sample_shape);
  return normal(loc().detach().expand(sizes), scale().detach().expand(sizes));
}

Tensor Normal::rsample(const Shape& sample_shape) const {
  const Tensor noise = empty_of(extended_shape(sample_shape), loc());
  normal_(noise);
  return loc() + noise * scale();
}

Tensor Normal::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor apart = (value - loc()).pow(2);
  return -apart / (variance() * 2) - scale().log() - std::log(std::sqrt(2 * std::numbers::pi));
}

Tensor Normal::cdf(const Tensor& value) const {
  check_sample(value);
  return (erf((value - loc()) * scale().reciprocal() / std::sqrt(2.0)) + 1) * 0.5;
}

Tensor Normal::icdf(const Tensor& probability) const {
  return loc() + scale() * erfinv(probability * 2 - 1) * std::sqrt(2.0);
}

Tensor Normal::entropy() const {
  return scale().log() + (0.5 + 0.5 * std::log(2 * std::numbers::pi));
}

std::vector<Tensor> Normal::natural_params() const {
  return {loc() / scale().pow(2), scale().pow(2).reciprocal() * -0.5};
}

Tensor Normal::log_normalizer(const std::vector<Tensor>& params) const {
  return params[0].pow(2) * -0.25 / params[1] + (-std::numbers::pi / params[1]).log() * 0.5;
}

Laplace::Laplace(const Argument& loc, const Argument& scale, const Options& options)
    : DistributionOf(loc, scale, options) {
  validate();
}

Laplace Laplace::expand(const Shape& batch_shape) const {
  Laplace result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Laplace::variance() const {
  return scale().pow(2) * 2;
}
Tensor Laplace::stddev() const {
  return scale() * std::sqrt(2.0);
}

Tensor Laplace::rsample(const Shape& sample_shape) const {
  const Tensor u = empty_of(extended_shape(sample_shape), loc());
  uniform_(u, finfo(u.dtype()).eps - 1, 1);
  return loc() - scale() * u.sign() * (-u.abs()).log1p();
}

Tensor Laplace::log_prob(const Tensor& value) const {
  check_sample(value);
  return -(scale() * 2).log() - (value - loc()).abs() / scale();
}

Tensor Laplace::cdf(const Tensor& value) const {
  check_sample(value);
  const Tensor apart = value - loc();
  return 0.5 - apart.sign() * 0.5 * (-apart.abs() / scale()).expm1();
}

Tensor Laplace::icdf(const Tensor& probability) const {
  const Tensor term = probability - 0.5;
  return loc() - scale() * term.sign() * (term.abs() * -2).log1p();
}

Tensor Laplace::entropy() const {
  return (scale() * 2).log() + 1;
}

Cauchy::Cauchy(const Argument& loc, const Argument& scale, const Options& options)
    : DistributionOf(loc, scale, options) {
  validate();
}

Cauchy Cauchy::expand(const Shape& batch_shape) const {
  Cauchy result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Cauchy::mean() const {
  return full_of(batch_shape(), std::numeric_limits<double>::quiet_NaN(), loc());
}
Tensor Cauchy::variance() const {
  return full_of(batch_shape(), std::numeric_limits<double>::infinity(), loc());
}

Tensor Cauchy::rsample(const Shape& sample_shape) const {
  const Tensor draw = empty_of(extended_shape(sample_shape), loc());
  cauchy_(draw);
  return loc() + draw * scale();
}

Tensor Cauchy::log_prob(const Tensor& value) const {
  check_sample(value);
  return -std::log(std::numbers::pi) - scale().log() - ((value - loc()) / scale()).pow(2).log1p();
}

Tensor Cauchy::cdf(const Tensor& value) const {
  check_sample(value);
  return atan((value - loc()) / scale()) / std::numbers::pi + 0.5;
}

Tensor Cauchy::icdf(const Tensor& probability) const {
  return tan((probability - 0.5) * std::numbers::pi) * scale() + loc();
}

Tensor Cauchy::entropy() const {
  return scale().log() + std::log(4 * std::numbers::pi);
}

Uniform::Uniform(const Argument& low, const Argument& high, const Options& options)
    : Uniform(broadcast_all({low, high}), options) {
  validate();
}

Uniform::Uniform(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(both[0].sizes(), Shape(), options.validate_args), low_(both[0]), high_(both[1]) {}

Uniform Uniform::expand(const Shape& batch_shape) const {
  Uniform result(*this);
  result.low_ = low_.expand(batch_shape);
  result.high_ = high_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Uniform::parameters() const {
  return {{"low", low_, constraints::less_than(high_)}, {"high", high_, constraints::greater_than(low_)}};
}

Tensor Uniform::mean() const {
  return (high_ + low_) / 2;
}
Tensor Uniform::mode() const {
  return high_ * std::numeric_limits<double>::quiet_NaN();
}
Tensor Uniform::variance() const {
  return (high_ - low_).pow(2) / 12;
}
Tensor Uniform::stddev() const {
  return (high_ - low_) / std::sqrt(12.0);
}

Tensor Uniform::rsample(const Shape& sample_shape) const {
  const Tensor u = rand(extended_shape(sample_shape), {.dtype = low_.dtype(), .device = low_.device()});
  return low_ + u * (high_ - low_);
}

Tensor Uniform::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor inside = (low_ <= value).type_as(low_) * (high_ > value).type_as(low_);
  return inside.log() - (high_ - low_).log();
}

Tensor Uniform::cdf(const Tensor& value) const {
  check_sample(value);
  return ((value - low_) / (high_ - low_)).clamp(0, 1);
}

Tensor Uniform::icdf(const Tensor& probability) const {
  return probability * (high_ - low_) + low_;
}

Tensor Uniform::entropy() const {
  return (high_ - low_).log();
}

Exponential::Exponential(const Argument& rate, const Options& options)
    : DistributionOf(rate.sizes(), Shape(), options.validate_args), rate_(rate.tensor()) {
  validate();
}

Exponential Exponential::expand(const Shape& batch_shape) const {
  Exponential result(*this);
  result.rate_ = rate_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Exponential::parameters() const {
  return {{"rate", rate_, constraints::positive()}};
}

Tensor Exponential::mean() const {
  return rate_.reciprocal();
}
Tensor Exponential::mode() const {
  return zeros_like(rate_);
}
Tensor Exponential::variance() const {
  return rate_.pow(-2);
}
Tensor Exponential::stddev() const {
  return rate_.reciprocal();
}

Tensor Exponential::rsample(const Shape& sample_shape) const {
  const Tensor waiting = empty_of(extended_shape(sample_shape), rate_);
  exponential_(waiting);
  return waiting / rate_;
}

Tensor Exponential::log_prob(const Tensor& value) const {
  check_sample(value);
  return rate_.log() - rate_ * value;
}

Tensor Exponential::cdf(const Tensor& value) const {
  check_sample(value);
  return 1 - (-rate_ * value).exp();
}

Tensor Exponential::icdf(const Tensor& probability) const {
  return -(-probability).log1p() / rate_;
}

Tensor Exponential::entropy() const {
  return 1 - rate_.log();
}

std::vector<Tensor> Exponential::natural_params() const {
  return {-rate_};
}
Tensor Exponential::log_normalizer(const std::vector<Tensor>& params) const {
  return -(-params[0]).log();
}

}  // namespace core::distributions

#include "libcore/distributions/extreme_values.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Uniform open_unit_interval(const Tensor& like, const Options& options) {
  const finfo limits(like.dtype());
  return Uniform(full_like(like, limits.tiny), full_like(like, 1 - limits.eps), options);
}

/// -scale * log(-log(x)) + loc.
std::vector<Transform> gumbel_steps(const Tensor& loc, const Tensor& scale) {
  return {ExpTransform().inv(), AffineTransform(0, -ones_like(scale)), ExpTransform().inv(),
          AffineTransform(loc, -scale)};
}

std::vector<Transform> weibull_steps(const Tensor& scale, const Tensor& concentration) {
  return {PowerTransform(concentration.reciprocal()), AffineTransform(0, scale)};
}

/// A concentration that may be divided by, and where the true one is 0.
struct SafeConcentration {
  Tensor is_zero, value;
  SafeConcentration(const Tensor& concentration, const Tensor& zero)
      : is_zero(isclose(concentration, zero)), value(where(is_zero, 1.0, concentration)) {}
};

}  // namespace

Gumbel::Gumbel(const Argument& loc, const Argument& scale, const Options& options)
    : Gumbel(broadcast_all({loc, scale}), options) {}

Gumbel::Gumbel(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(open_unit_interval(both[0], options), gumbel_steps(both[0], both[1]), options),
      loc_(both[0]),
      scale_(both[1]) {
  validate();
}

Gumbel Gumbel::expand(const Shape& batch_shape) const {
  Gumbel result(*this);
  result.loc_ = loc_.expand(batch_shape);
  result.scale_ = scale_.expand(batch_shape);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Gumbel::parameters() const {
  return {{"loc", loc_, constraints::real()}, {"scale", scale_, constraints::positive()}};
}

Tensor Gumbel::mean() const {
  return loc_ + scale_ * std::numbers::egamma;
}
Tensor Gumbel::stddev() const {
  return scale_ * (std::numbers::pi / std::sqrt(6.0));
}
Tensor Gumbel::variance() const {
  return stddev().pow(2);
}

Tensor Gumbel::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor y = (loc_ - value) / scale_;
  return (y - y.exp()) - scale_.log();
}

Tensor Gumbel::entropy() const {
  return scale_.log() + (1 + std::numbers::egamma);
}

Weibull::Weibull(const Argument& scale, const Argument& concentration, const Options& options)
    : Weibull(broadcast_all({scale, concentration}), options) {}

Weibull::Weibull(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(Exponential(ones_like(both[0]), options), weibull_steps(both[0], both[1]), options),
      scale_(both[0]),
      concentration_(both[1]) {
  validate();
}

Weibull Weibull::expand(const Shape& batch_shape) const {
  Weibull result(*this);
  result.scale_ = scale_.expand(batch_shape);
  result.concentration_ = concentration_.expand(batch_shape);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Weibull::parameters() const {
  return {{"scale", scale_, constraints::positive()}, {"concentration", concentration_, constraints::positive()}};
}

Tensor Weibull::mean() const {
  return scale_ * lgamma(concentration_.reciprocal() + 1).exp();
}
Tensor Weibull::mode() const {
  return scale_ * ((concentration_ - 1) / concentration_).pow(concentration_.reciprocal());
}
Tensor Weibull::variance() const {
  const Tensor power = concentration_.reciprocal();
  return scale_.pow(2) * (lgamma(power * 2 + 1).exp() - (lgamma(power + 1) * 2).exp());
}

Tensor Weibull::entropy() const {
  const Tensor power = concentration_.reciprocal();
  return (1 - power) * std::numbers::egamma + (scale_ * power).log() + 1;
}

Pareto::Pareto(const Argument& scale, const Argument& alpha, const Options& options)
    : Pareto(broadcast_all({scale, alpha}), options) {}

Pareto::Pareto(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(Exponential(both[1], options), std::vector<Transform>{ExpTransform(), AffineTransform(0, both[0])},
                     options),
      scale_(both[0]),
      alpha_(both[1]) {
  validate();
}

Pareto Pareto::expand(const Shape& batch_shape) const {
  Pareto result(*this);
  result.scale_ = scale_.expand(batch_shape);
  result.alpha_ = alpha_.expand(batch_shape);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Pareto::parameters() const {
  return {{"alpha", alpha_, constraints::positive()}, {"scale", scale_, constraints::positive()}};
}

Tensor Pareto::mean() const {
  const Tensor a = alpha_.clamp(1);
  return a * scale_ / (a - 1);
}
Tensor Pareto::variance() const {
  const Tensor a = alpha_.clamp(2);
  return scale_.pow(2) * a / ((a - 1).pow(2) * (a - 2));
}
Tensor Pareto::entropy() const {
  return (scale_ / alpha_).log() + (alpha_.reciprocal() + 1);
}

GeneralizedPareto::GeneralizedPareto(const Argument& loc, const Argument& scale, const Argument& concentration,
                                     const Options& options)
    : GeneralizedPareto(broadcast_all({loc, scale, concentration}), options) {}

GeneralizedPareto::GeneralizedPareto(const std::vector<Tensor>& all, const Options& options)
    : DistributionOf(all[0].sizes(), Shape(), options.validate_args),
      loc_(all[0]),
      scale_(all[1]),
      concentration_(all[2]) {
  validate();
}

GeneralizedPareto GeneralizedPareto::expand(const Shape& batch_shape) const {
  GeneralizedPareto result(*this);
  for (Tensor* each : {&result.loc_, &result.scale_, &result.concentration_}) *each = each->expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> GeneralizedPareto::parameters() const {
  return {{"loc", loc_, constraints::real()},
          {"scale", scale_, constraints::positive()},
          {"concentration", concentration_, constraints::real()}};
}

Constraint GeneralizedPareto::support() const {
  return constraints::interval(loc_, where(concentration_ < 0, loc_ - scale_ / concentration_, kInfinity));
}

Tensor GeneralizedPareto::mean() const {
  const Tensor valid = concentration_ < 1;
  return where(valid, loc_ + scale_ / (1 - where(valid, concentration_, 0.5)), kNan);
}
Tensor GeneralizedPareto::variance() const {
  const Tensor valid = concentration_ < 0.5;
  const Tensor c = where(valid, concentration_, 0.25);
  return where(valid, scale_.pow(2) / ((1 - c).pow(2) * (1 - c * 2)), kNan);
}

Tensor GeneralizedPareto::rsample(const Shape& sample_shape) const {
  return icdf(rand(extended_shape(sample_shape), {.dtype = loc_.dtype(), .device = loc_.device()}));
}

Tensor GeneralizedPareto::in_scales(const Tensor& value) const {
  return (value - loc_) / scale_;
}

Tensor GeneralizedPareto::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor z = in_scales(value);
  const SafeConcentration c(concentration_, zeros_like(concentration_));
  const Tensor y = c.value.reciprocal() + ones_like(z);
  const Tensor curved = where(eq(y, 0), y, y * (c.value * z).log1p());
  return -scale_.log() - where(c.is_zero, z, curved);
}

Tensor GeneralizedPareto::log_survival_function(const Tensor& value) const {
  check_sample(value);
  const Tensor z = in_scales(value);
  const SafeConcentration c(concentration_, zeros_like(concentration_));
  return where(c.is_zero, -z, -(c.value * z).log1p() / c.value);
}

Tensor GeneralizedPareto::log_cdf(const Tensor& value) const {
  return (-log_survival_function(value).exp()).log1p();
}
Tensor GeneralizedPareto::cdf(const Tensor& value) const {
  return log_cdf(value).exp();
}

Tensor GeneralizedPareto::icdf(const Tensor& probability) const {
  const SafeConcentration c(concentration_, zeros_like(concentration_));
  const Tensor log_above = (-probability).log1p();
  const Tensor curved = loc_ + scale_ / c.value * (-c.value * log_above).expm1();
  return where(c.is_zero, loc_ - scale_ * log_above, curved);
}

Tensor GeneralizedPareto::entropy() const {
  return broadcast_to(scale_.log() + concentration_ + 1, batch_shape());
}

}  // namespace core::distributions

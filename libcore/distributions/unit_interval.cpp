#include "libcore/distributions/unit_interval.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

/// probs as clamp_probs() leaves them, checked before where checks are asked for.
ProbsOrLogits with_clamped_probs(const ProbsOrLogits& given) {
  given.check();
  if (!given.has_probs()) return given;
  const Tensor probs = given.probs->tensor();
  if (given.validate_args && !constraints::unit_interval().check(probs).all().item<bool>()) {
    throw Error(ErrorCode::value, "The parameter probs has invalid values");
  }
  return {.probs = clamp_probs(probs), .validate_args = given.validate_args};
}

Tensor log_odds_against(const Tensor& probs) {
  return (-probs).log1p() - probs.log();
}

std::vector<Transform> kumaraswamy_steps(const Tensor& concentration1, const Tensor& concentration0) {
  return {PowerTransform(concentration0.reciprocal()), AffineTransform(1.0, -1.0),
          PowerTransform(concentration1.reciprocal())};
}

}  // namespace

ContinuousBernoulli::ContinuousBernoulli(const Argument& probs, const Options& options)
    : ContinuousBernoulli(ProbsOrLogits{.probs = probs, .validate_args = options.validate_args}) {}

ContinuousBernoulli::ContinuousBernoulli(const ProbsOrLogits& given, const UnstableRegion& unstable)
    : DistributionOf(with_clamped_probs(given)), unstable_(unstable) {
  validate();
}

ContinuousBernoulli ContinuousBernoulli::expand(const Shape& batch_shape) const {
  ContinuousBernoulli result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor ContinuousBernoulli::probs() const {
  const Tensor p = BinaryDistribution::probs();
  return has_probs() ? p : clamp_probs(p);
}

Tensor ContinuousBernoulli::is_stable() const {
  const Tensor p = probs();
  return (p <= unstable_.low) | (p > unstable_.high);
}

Tensor ContinuousBernoulli::stable_probs() const {
  return where(is_stable(), probs(), unstable_.low);
}

Tensor ContinuousBernoulli::log_norm() const {
  const Tensor p = stable_probs(), is_low = p <= 0.5;
  const Tensor low = where(is_low, p, 0.0), high = where(p >= 0.5, p, 1.0);
  const Tensor norm = log_odds_against(p).abs().log() - where(is_low, (low * -2.0).log1p(), (high * 2.0 - 1.0).log());
  const Tensor x = (probs() - 0.5).pow(2);
  return where(is_stable(), norm, (x * (104.0 / 45.0) + 4.0 / 3.0) * x + std::log(2.0));
}

Tensor ContinuousBernoulli::mean() const {
  const Tensor p = stable_probs(), x = probs() - 0.5;
  const Tensor exact = p / (p * 2.0 - 1.0) + log_odds_against(p).reciprocal();
  return where(is_stable(), exact, (x.pow(2) * (16.0 / 45.0) + 1.0 / 3.0) * x + 0.5);
}

Tensor ContinuousBernoulli::variance() const {
  const Tensor p = stable_probs(), x = (probs() - 0.5).pow(2);
  const Tensor exact = p * (p - 1.0) / (1.0 - p * 2.0).pow(2) + log_odds_against(p).pow(2).reciprocal();
  return where(is_stable(), exact, 1.0 / 12.0 - (1.0 / 15.0 - x * (128.0 / 945.0)) * x);
}

Tensor ContinuousBernoulli::rsample(const Shape& sample_shape) const {
  return icdf(rand(extended_shape(sample_shape), {.dtype = parameter().dtype(), .device = parameter().device()}));
}

Tensor ContinuousBernoulli::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_all({logits(), value});
  return -binary_cross_entropy_with_logits(both[0], both[1], {.reduction = Reduction::none}) + log_norm();
}

Tensor ContinuousBernoulli::cdf(const Tensor& value) const {
  check_sample(value);
  const Tensor p = stable_probs();
  const Tensor exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (p * 2.0 - 1.0);
  const Tensor inside = where(is_stable(), exact, value);
  return where(value <= 0.0, zeros_like(value), where(value >= 1.0, ones_like(value), inside));
}

Tensor ContinuousBernoulli::icdf(const Tensor& probability) const {
  const Tensor p = stable_probs(), none = (-p).log1p();
  const Tensor exact = ((-p + probability * (p * 2.0 - 1.0)).log1p() - none) / (p.log() - none);
  return where(is_stable(), exact, probability);
}

Tensor ContinuousBernoulli::entropy() const {
  const Tensor p = probs(), none = (-p).log1p();
  return mean() * (none - p.log()) - log_norm() - none;
}

std::vector<Tensor> ContinuousBernoulli::natural_params() const {
  return {logits()};
}

Tensor ContinuousBernoulli::log_normalizer(const std::vector<Tensor>& params) const {
  const Tensor& x = params[0];
  const Tensor is_exact = (x <= unstable_.low - 0.5) | (x > unstable_.high - 0.5);
  const Tensor safe = where(is_exact, x, unstable_.low - 0.5);
  const Tensor series = x * 0.5 + x.pow(2) / 24.0 - x.pow(4) / 2880.0;
  return where(is_exact, safe.expm1().abs().log() - safe.abs().log(), series);
}

Kumaraswamy::Kumaraswamy(const Argument& concentration1, const Argument& concentration0, const Options& options)
    : Kumaraswamy(broadcast_all({concentration1, concentration0}), options) {}

Kumaraswamy::Kumaraswamy(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(Uniform(full_like(both[1], 0), full_like(both[1], 1), options),
                     kumaraswamy_steps(both[0], both[1]), options),
      concentration1_(both[0]),
      concentration0_(both[1]) {
  validate();
}

Kumaraswamy Kumaraswamy::expand(const Shape& batch_shape) const {
  Kumaraswamy result(*this);
  result.concentration1_ = concentration1_.expand(batch_shape);
  result.concentration0_ = concentration0_.expand(batch_shape);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Kumaraswamy::parameters() const {
  return {{"concentration1", concentration1_, constraints::positive()},
          {"concentration0", concentration0_, constraints::positive()}};
}

Tensor Kumaraswamy::moment(double n) const {
  const Tensor a = n / concentration1_ + 1, &b = concentration0_;
  return b * (lgamma(a) + lgamma(b) - lgamma(a + b)).exp();
}

Tensor Kumaraswamy::mean() const {
  return moment(1);
}

Tensor Kumaraswamy::mode() const {
  const Tensor &a = concentration1_, &b = concentration0_;
  const Tensor log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p();
  return log_mode.masked_fill((b < 1) | (a < 1), std::numeric_limits<double>::quiet_NaN()).exp();
}

Tensor Kumaraswamy::variance() const {
  return moment(2) - mean().pow(2);
}

Tensor Kumaraswamy::entropy() const {
  const Tensor &a = concentration1_, &b = concentration0_;
  const Tensor harmonic = digamma(b + 1) + std::numbers::egamma;
  return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log();
}

}  // namespace core::distributions

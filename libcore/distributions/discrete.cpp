#include "libcore/distributions/discrete.h"

#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/random_draws.h"

namespace core::distributions {
namespace {

Tensor cross_entropy_of(const Tensor& logits, const Tensor& probs) {
  return binary_cross_entropy_with_logits(logits, probs, {.reduction = Reduction::none});
}

/// max(x, 0), whose gradient at 0 is one half.
Tensor clamp_by_zero(const Tensor& x) {
  return (x.clamp(0) + x - x.clamp({}, 0)) / 2;
}

}  // namespace

BinaryDistribution::BinaryDistribution(const Argument& probs, const Options& options)
    : BinaryDistribution(ProbsOrLogits{.probs = probs, .validate_args = options.validate_args}) {}

BinaryDistribution::BinaryDistribution(const ProbsOrLogits& given) : Distribution({}, {}, given.validate_args) {
  given.check();
  if (given.has_probs()) probs_ = given.probs->tensor();
  if (given.has_logits()) logits_ = given.logits->tensor();
  set_batch_shape(parameter().sizes());
}

void BinaryDistribution::repeat_to(const Shape& batch_shape) {
  (probs_.defined() ? probs_ : logits_) = parameter().expand(batch_shape);
  set_batch_shape(batch_shape);
}

Tensor BinaryDistribution::probs() const {
  return probs_.defined() ? probs_ : logits_to_probs(logits_, true);
}
Tensor BinaryDistribution::logits() const {
  return logits_.defined() ? logits_ : probs_to_logits(probs_, true);
}

std::vector<Distribution::Parameter> BinaryDistribution::parameters() const {
  if (probs_.defined()) return {{"probs", probs_, constraints::unit_interval()}};
  return {{"logits", logits_, constraints::real()}};
}

Tensor BinaryDistribution::first_numbers(std::int64_t count, bool expand) const {
  const Tensor numbers = arange(count, {.dtype = parameter().dtype(), .device = parameter().device()});
  const Tensor values = numbers.view(joined({count}, Shape(batch_shape().size(), 1)));
  return expand ? values.expand(joined({count}, batch_shape())) : values;
}

Bernoulli::Bernoulli(const Argument& probs, const Options& options) : DistributionOf(probs, options) {
  validate();
}
Bernoulli::Bernoulli(const ProbsOrLogits& given) : DistributionOf(given) {
  validate();
}

Bernoulli Bernoulli::expand(const Shape& batch_shape) const {
  Bernoulli result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Bernoulli::mode() const {
  const Tensor p = probs();
  return where(eq(p, 0.5), std::numeric_limits<double>::quiet_NaN(), (p >= 0.5).to(p));
}

Tensor Bernoulli::variance() const {
  return probs() * (1 - probs());
}

Tensor Bernoulli::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  return bernoulli(probs().expand(extended_shape(sample_shape)));
}

Tensor Bernoulli::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_all({logits(), value});
  return -cross_entropy_of(both[0], both[1]);
}

Tensor Bernoulli::entropy() const {
  return cross_entropy_of(logits(), probs());
}

std::vector<Tensor> Bernoulli::natural_params() const {
  return {logit(probs())};
}
Tensor Bernoulli::log_normalizer(const std::vector<Tensor>& params) const {
  return params[0].exp().log1p();
}

Binomial::Binomial(const Argument& total_count, const Argument& probs, const Options& options)
    : Binomial(total_count, ProbsOrLogits{.probs = probs, .validate_args = options.validate_args}) {}

Binomial::Binomial(const Argument& total_count, const ProbsOrLogits& given)
    : DistributionOf(broadcast_with(total_count, given)) {
  total_count_ = broadcast_all({total_count, parameter()})[0].type_as(parameter());
  validate();
}

Binomial Binomial::expand(const Shape& batch_shape) const {
  Binomial result(*this);
  result.repeat_to(batch_shape);
  result.total_count_ = total_count_.expand(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Binomial::parameters() const {
  std::vector<Parameter> all{{"total_count", total_count_, constraints::nonnegative_integer()}};
  for (const Parameter& p : BinaryDistribution::parameters()) all.push_back(p);
  return all;
}

Constraint Binomial::support() const {
  return constraints::integer_interval(0, total_count_);
}

Tensor Binomial::mean() const {
  return total_count_ * probs();
}
Tensor Binomial::mode() const {
  return minimum(((total_count_ + 1) * probs()).floor(), total_count_);
}
Tensor Binomial::variance() const {
  return total_count_ * probs() * (1 - probs());
}

Tensor Binomial::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Shape sizes = extended_shape(sample_shape);
  return binomial(total_count_.expand(sizes), probs().expand(sizes));
}

Tensor Binomial::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor l = logits();
  const Tensor normalizer =
      total_count_ * clamp_by_zero(l) + total_count_ * (-l.abs()).exp().log1p() - lgamma(total_count_ + 1);
  return value * l - lgamma(value + 1) - lgamma(total_count_ - value + 1) - normalizer;
}

std::int64_t Binomial::one_count(const char* what) const {
  const double most = total_count_.max().item<double>();
  if (total_count_.min().item<double>() == most) return static_cast<std::int64_t>(most);
  throw Error(ErrorCode::not_implemented, std::string("Inhomogeneous total count not supported by `") + what + "`.");
}

Tensor Binomial::entropy() const {
  one_count("entropy");
  const Tensor each = log_prob(enumerate_support(false));
  return -(each.exp() * each).sum(0);
}

Tensor Binomial::enumerate_support(bool expand) const {
  return first_numbers(one_count("enumerate_support") + 1, expand);
}

Geometric::Geometric(const Argument& probs, const Options& options) : DistributionOf(probs, options) {
  validate();
  validate_positive();
}
Geometric::Geometric(const ProbsOrLogits& given) : DistributionOf(given) {
  validate();
  validate_positive();
}

void Geometric::validate_positive() const {
  if (!validates_args() || !has_probs()) return;
  const Tensor wrong = logical_not(probs() > 0);
  if (!wrong.any().item<bool>()) return;
  const std::string found = formatted(masked_select(probs().detach(), wrong));
  throw Error(ErrorCode::value, "Expected parameter probs (Tensor of shape " + tuple_text(probs().sizes()) +
                                    ") of distribution " + str() + " to be positive but found invalid values:\n" +
                                    found);
}

Geometric Geometric::expand(const Shape& batch_shape) const {
  Geometric result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor Geometric::mean() const {
  return 1.0 / probs() - 1.0;
}
Tensor Geometric::mode() const {
  return zeros_like(probs());
}
Tensor Geometric::variance() const {
  return (1.0 / probs() - 1.0) / probs();
}

Tensor Geometric::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Tensor p = probs();
  const Tensor u = empty(extended_shape(sample_shape), {.dtype = p.dtype(), .device = p.device()});
  uniform_(u, finfo(p.dtype()).tiny, 1);
  return (u.log() / (-p).log1p()).floor();
}

Tensor Geometric::log_prob(const Tensor& given) const {
  check_sample(given);
  const std::vector<Tensor> both = broadcast_all({given, probs()});
  const Tensor& value = both[0];
  const Tensor p = where(eq(both[1], 1) & eq(value, 0), 0.0, both[1]);
  return value * (-p).log1p() + probs().log();
}

Tensor Geometric::entropy() const {
  return cross_entropy_of(logits(), probs()) / probs();
}

Poisson::Poisson(const Argument& rate, const Options& options)
    : DistributionOf(rate.sizes(), Shape(), options.validate_args), rate_(rate.tensor()) {
  validate();
}

Poisson Poisson::expand(const Shape& batch_shape) const {
  Poisson result(*this);
  result.rate_ = rate_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Poisson::parameters() const {
  return {{"rate", rate_, constraints::nonnegative()}};
}

Tensor Poisson::mode() const {
  return rate_.floor();
}

Tensor Poisson::sample(const Shape& sample_shape) const {
  return poisson(rate_.detach().expand(extended_shape(sample_shape)));
}

Tensor Poisson::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_all({rate_, value});
  return xlogy(both[1], both[0]) - both[0] - lgamma(both[1] + 1);
}

std::vector<Tensor> Poisson::natural_params() const {
  return {rate_.log()};
}
Tensor Poisson::log_normalizer(const std::vector<Tensor>& params) const {
  return params[0].exp();
}

}  // namespace core::distributions

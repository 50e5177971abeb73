#include "libcore/distributions/relaxed.h"

#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

ProbsOrLogits probs_of(const Argument& probs, const Options& options) {
  return {.probs = probs, .validate_args = options.validate_args};
}

Options options_of(const ProbsOrLogits& given) {
  return {.validate_args = given.validate_args};
}

/// As rand(), without 0 and 1.
Tensor open_uniform(const Shape& sizes, const Tensor& like) {
  return clamp_probs(rand(sizes, {.dtype = like.dtype(), .device = like.device()}));
}

}  // namespace

LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Argument& temperature, const Argument& probs, const Options& options)
    : LogitRelaxedBernoulli(temperature, probs_of(probs, options)) {}

LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Argument& temperature, const ProbsOrLogits& given)
    : DistributionOf(given), temperature_(temperature.tensor(parameter())) {
  validate();
}

LogitRelaxedBernoulli LogitRelaxedBernoulli::expand(const Shape& batch_shape) const {
  LogitRelaxedBernoulli result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor LogitRelaxedBernoulli::rsample(const Shape& sample_shape) const {
  const Shape sizes = extended_shape(sample_shape);
  const Tensor p = clamp_probs(probs().expand(sizes)), u = open_uniform(sizes, p);
  return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / temperature_;
}

Tensor LogitRelaxedBernoulli::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_all({logits(), value});
  const Tensor apart = both[0] - both[1] * temperature_;
  return temperature_.log() + apart - apart.exp().log1p() * 2;
}

RelaxedBernoulli::RelaxedBernoulli(const Argument& temperature, const Argument& probs, const Options& options)
    : RelaxedBernoulli(temperature, probs_of(probs, options)) {}

RelaxedBernoulli::RelaxedBernoulli(const Argument& temperature, const ProbsOrLogits& given)
    : DistributionOf(LogitRelaxedBernoulli(temperature, given.with_default_checks()), SigmoidTransform(),
                     options_of(given)) {
  validate();
}

RelaxedBernoulli RelaxedBernoulli::expand(const Shape& batch_shape) const {
  RelaxedBernoulli result(*this);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> RelaxedBernoulli::parameters() const {
  return {{"probs", probs(), constraints::unit_interval(), false}, {"logits", logits(), constraints::real(), false}};
}

ExpRelaxedCategorical::ExpRelaxedCategorical(const Argument& temperature, const Tensor& probs, const Options& options)
    : ExpRelaxedCategorical(temperature, probs_of(probs, options)) {}

ExpRelaxedCategorical::ExpRelaxedCategorical(const Argument& temperature, const ProbsOrLogits& given)
    : DistributionOf(Shape(), Shape(), given.validate_args), categorical_(given.with_default_checks()) {
  temperature_ = temperature.tensor(logits());
  set_shapes(param_shape(), 1);
  validate();
}

ExpRelaxedCategorical ExpRelaxedCategorical::expand(const Shape& batch_shape) const {
  ExpRelaxedCategorical result(*this);
  result.categorical_ = categorical_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> ExpRelaxedCategorical::parameters() const {
  return {{"probs", probs(), constraints::simplex(), false}, {"logits", logits(), constraints::real_vector(), false}};
}

Tensor ExpRelaxedCategorical::rsample(const Shape& sample_shape) const {
  const Tensor l = logits();
  const Tensor gumbel = -(-open_uniform(extended_shape(sample_shape), l).log()).log();
  const Tensor scores = (l + gumbel) / temperature_;
  return scores - scores.logsumexp(-1, true);
}

Tensor ExpRelaxedCategorical::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::int64_t k = event_shape()[0];
  const std::vector<Tensor> both = broadcast_all({logits(), value});
  const Tensor norm = lgamma(full_like(temperature_, k)) + temperature_.log() * (k - 1);
  const Tensor score = both[0] - both[1] * temperature_;
  return (score - score.logsumexp(-1, true)).sum(-1) + norm;
}

RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Argument& temperature, const Tensor& probs,
                                                   const Options& options)
    : RelaxedOneHotCategorical(temperature, probs_of(probs, options)) {}

RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Argument& temperature, const ProbsOrLogits& given)
    : DistributionOf(ExpRelaxedCategorical(temperature, given), ExpTransform(), options_of(given)) {
  validate();
}

RelaxedOneHotCategorical RelaxedOneHotCategorical::expand(const Shape& batch_shape) const {
  RelaxedOneHotCategorical result(*this);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> RelaxedOneHotCategorical::parameters() const {
  return {{"probs", probs(), constraints::simplex(), false}, {"logits", logits(), constraints::real_vector(), false}};
}

}  // namespace core::distributions

#include "libcore/distributions/counts.h"

#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/distributions/gamma.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random_draws.h"

namespace core::distributions {
NegativeBinomial::NegativeBinomial(const Argument& total_count, const Argument& probs, const Options& options)
    : NegativeBinomial(total_count, ProbsOrLogits{.probs = probs, .validate_args = options.validate_args}) {}

NegativeBinomial::NegativeBinomial(const Argument& total_count, const ProbsOrLogits& given)
    : DistributionOf(broadcast_with(total_count, given)) {
  total_count_ = broadcast_all({total_count, parameter()})[0].type_as(parameter());
  validate();
}

NegativeBinomial NegativeBinomial::expand(const Shape& batch_shape) const {
  NegativeBinomial result(*this);
  result.repeat_to(batch_shape);
  result.total_count_ = total_count_.expand(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> NegativeBinomial::parameters() const {
  const Parameter count{"total_count", total_count_, constraints::greater_than_eq(0)};
  if (has_probs()) return {count, {"probs", probs(), constraints::half_open_interval(0.0, 1.0)}};
  return {count, {"logits", logits(), constraints::real()}};
}

Tensor NegativeBinomial::mean() const {
  return total_count_ * logits().exp();
}
Tensor NegativeBinomial::mode() const {
  return ((total_count_ - 1) * logits().exp()).floor().clamp(0.0);
}
Tensor NegativeBinomial::variance() const {
  return mean() / sigmoid(-logits());
}

Tensor NegativeBinomial::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Gamma rate(total_count_, (-logits()).exp(), {.validate_args = false});  // a count of 0 is none of its own
  return poisson(rate.sample(sample_shape));
}

Tensor NegativeBinomial::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor l = logits();
  const Tensor unnormalized = total_count_ * log_sigmoid(-l) + value * log_sigmoid(l);
  const Tensor norm = -lgamma(total_count_ + value) + lgamma(value + 1.0) + lgamma(total_count_);
  return unnormalized - norm.masked_fill(eq(total_count_ + value, 0.0), 0.0);  // no tries, no successes: certain
}

Multinomial::Multinomial(std::int64_t total_count, const Tensor& probs, const Options& options)
    : Multinomial(total_count, ProbsOrLogits{.probs = probs, .validate_args = options.validate_args}) {}

Multinomial::Multinomial(std::int64_t total_count, const ProbsOrLogits& given)
    : DistributionOf(Shape(), Shape(), given.validate_args),
      total_count_(total_count),
      categorical_(given.with_default_checks()),
      of_each_(total_count, categorical_.probs()) {
  set_shapes(param_shape(), 1);
  validate();
}

Multinomial Multinomial::expand(const Shape& batch_shape) const {
  Multinomial result(*this);
  result.categorical_ = categorical_.expand(batch_shape);
  result.of_each_ = of_each_.expand(joined(batch_shape, event_shape()));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Multinomial::parameters() const {
  return {{"probs", probs(), constraints::simplex(), false}, {"logits", logits(), constraints::real_vector(), false}};
}

Tensor Multinomial::mean() const {
  return probs() * total_count_;
}
Tensor Multinomial::variance() const {
  const Tensor p = probs();
  return p * total_count_ * (1 - p);
}

Tensor Multinomial::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Tensor drawn = categorical_.sample(joined({total_count_}, sample_shape)).movedim(0, -1);
  const Tensor counts = zeros(extended_shape(sample_shape), {.dtype = drawn.dtype(), .device = drawn.device()});
  counts.scatter_add_(-1, drawn, ones_like(drawn));
  return counts.type_as(probs());
}

Tensor Multinomial::entropy() const {
  const Tensor p = probs();
  const Tensor n = full({}, total_count_, {.dtype = p.dtype(), .device = p.device()});
  const Tensor counts = of_each_.enumerate_support(false).slice(0, 1);
  const Tensor expected = of_each_.log_prob(counts).exp() * lgamma(counts + 1);
  return n * categorical_.entropy() - lgamma(n + 1) + expected.sum({0, -1});
}

Tensor Multinomial::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_all({logits(), value});
  const Tensor& x = both[1];
  const Tensor is_impossible = eq(both[0], -std::numeric_limits<double>::infinity());
  const Tensor powers = (both[0].masked_fill(eq(x, 0) & is_impossible, 0) * x).sum(-1);
  return lgamma(x.sum(-1) + 1) - lgamma(x + 1).sum(-1) + powers;
}

}  // namespace core::distributions

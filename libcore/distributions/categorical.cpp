#include "libcore/distributions/categorical.h"

#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

Tensor checked(const Argument& given, const char* name) {
  const Tensor x = given.tensor();
  if (x.dim() >= 1) return x;
  throw Error(ErrorCode::value, std::string("`") + name + "` parameter must be at least one-dimensional.");
}

ProbsOrLogits with_probs(const Tensor& probs, const Options& options) {
  return {.probs = probs, .validate_args = options.validate_args};
}

Tensor nan_of(const Shape& sizes, const Tensor& like) {
  return full(sizes, std::numeric_limits<double>::quiet_NaN(), {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

Categorical::Categorical(const Tensor& probs, const Options& options) : Categorical(with_probs(probs, options)) {}

Categorical::Categorical(const ProbsOrLogits& given) : DistributionOf(Shape(), Shape(), given.validate_args) {
  given.check();
  if (given.has_probs()) {
    const Tensor p = checked(*given.probs, "probs");
    probs_ = p / p.sum(-1, true);
  } else {
    const Tensor l = checked(*given.logits, "logits");
    logits_ = l - l.logsumexp(-1, true);
  }
  Shape batch = parameter().sizes();
  batch.pop_back();
  set_batch_shape(batch);
  validate();
}

Categorical Categorical::expand(const Shape& batch_shape) const {
  Categorical result(*this);
  (probs_.defined() ? result.probs_ : result.logits_) = parameter().expand(joined(batch_shape, {categories()}));
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> Categorical::parameters() const {
  if (probs_.defined()) return {{"probs", probs_, constraints::simplex()}};
  return {{"logits", logits_, constraints::real_vector()}};
}

Constraint Categorical::support() const {
  return constraints::integer_interval(0, categories() - 1);
}

Tensor Categorical::probs() const {
  return probs_.defined() ? probs_ : logits_to_probs(logits_);
}
Tensor Categorical::logits() const {
  return logits_.defined() ? logits_ : probs_to_logits(probs_);
}

Tensor Categorical::mean() const {
  return nan_of(batch_shape(), parameter());
}
Tensor Categorical::mode() const {
  return probs().argmax(-1);
}
Tensor Categorical::variance() const {
  return nan_of(batch_shape(), parameter());
}

Tensor Categorical::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Tensor rows = probs().reshape({-1, categories()});
  const Tensor drawn = multinomial(rows, {.num_samples = sample_shape.numel(), .replacement = true});
  return drawn.transpose(0, 1).reshape(extended_shape(sample_shape));
}

Tensor Categorical::log_prob(const Tensor& value) const {
  check_sample(value);
  const std::vector<Tensor> both = broadcast_tensors({value.long_().unsqueeze(-1), logits()});
  return gather(both[1], -1, both[0].narrow(-1, 0, 1)).squeeze(-1);
}

Tensor Categorical::entropy() const {
  const Tensor l = logits().clamp(finfo(parameter().dtype()).min);
  return -(l * probs()).sum(-1);
}

Tensor Categorical::enumerate_support(bool expand) const {
  const Tensor numbers = arange(categories(), {.device = parameter().device()});
  const Tensor values = numbers.view(joined({categories()}, Shape(batch_shape().size(), 1)));
  return expand ? values.expand(joined({categories()}, batch_shape())) : values;
}

OneHotCategorical::OneHotCategorical(const Tensor& probs, const Options& options)
    : OneHotCategorical(with_probs(probs, options)) {}

OneHotCategorical::OneHotCategorical(const ProbsOrLogits& given)
    : DistributionOf(Shape(), Shape(), given.validate_args), categorical_(given.with_default_checks()) {
  set_shapes(categorical_.param_shape(), 1);
  validate();
}

void OneHotCategorical::repeat_to(const Shape& batch_shape) {
  categorical_ = categorical_.expand(batch_shape);
  set_batch_shape(batch_shape);
}

OneHotCategorical OneHotCategorical::expand(const Shape& batch_shape) const {
  OneHotCategorical result(*this);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> OneHotCategorical::parameters() const {
  return {{"probs", probs(), constraints::simplex(), false}, {"logits", logits(), constraints::real_vector(), false}};
}

Tensor OneHotCategorical::mode() const {
  const Tensor p = probs();
  return one_hot(p.argmax(-1), p.size(-1)).to(p);
}
Tensor OneHotCategorical::variance() const {
  return probs() * (1 - probs());
}

Tensor OneHotCategorical::sample(const Shape& sample_shape) const {
  return one_hot(categorical_.sample(sample_shape), categorical_.categories()).to(categorical_.parameter());
}

Tensor OneHotCategorical::log_prob(const Tensor& value) const {
  check_sample(value);
  return categorical_.log_prob(value.max(-1).indices);
}

Tensor OneHotCategorical::enumerate_support(bool expand) const {
  const std::int64_t n = event_shape()[0];
  const Tensor& like = categorical_.parameter();
  const Tensor rows = eye(n, {}, {.dtype = like.dtype(), .device = like.device()});
  const Tensor values = rows.view(joined(joined({n}, Shape(batch_shape().size(), 1)), {n}));
  return expand ? values.expand(joined(joined({n}, batch_shape()), {n})) : values;
}

OneHotCategoricalStraightThrough::OneHotCategoricalStraightThrough(const Tensor& probs, const Options& options)
    : DistributionOf(probs, options) {}
OneHotCategoricalStraightThrough::OneHotCategoricalStraightThrough(const ProbsOrLogits& given)
    : DistributionOf(given) {}

OneHotCategoricalStraightThrough OneHotCategoricalStraightThrough::expand(const Shape& batch_shape) const {
  OneHotCategoricalStraightThrough result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Tensor OneHotCategoricalStraightThrough::rsample(const Shape& sample_shape) const {
  const Tensor p = probs();
  return sample(sample_shape) + (p - p.detach());
}

}  // namespace core::distributions

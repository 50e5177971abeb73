#include "libcore/distributions/transformed.h"

#include <algorithm>
#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"

namespace core::distributions {
namespace {

std::int64_t rank(const Shape& sizes) {
  return static_cast<std::int64_t>(sizes.size());
}

Normal vector_of(const Normal& normal) {
  return normal.batch_shape().empty() ? normal.expand({1}) : normal;
}

}  // namespace

Independent::Independent(const Distribution& base, std::int64_t count, const Options& options)
    : DistributionOf(Shape(), Shape(), options.validate_args), base_(base.copy()), count_(count) {
  if (count < 0) {
    throw Error(ErrorCode::assertion, "reinterpreted_batch_ndims must be >= 0, got " + std::to_string(count));
  }
  if (count > rank(base.batch_shape())) {
    throw Error(ErrorCode::value, "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual " +
                                      std::to_string(count) + " vs " + std::to_string(rank(base.batch_shape())));
  }
  set_shapes(joined(base.batch_shape(), base.event_shape()),
             static_cast<std::size_t>(count) + base.event_shape().size());
}

Independent Independent::expand(const Shape& batch_shape) const {
  Independent result(*this);
  result.base_ = base_->expanded(joined(batch_shape, first_dims(event_shape(), static_cast<std::size_t>(count_))));
  result.set_batch_shape(batch_shape);
  return result;
}

Tensor Independent::log_prob(const Tensor& value) const {
  return sum_rightmost(base_->log_prob(value), count_);
}
Tensor Independent::entropy() const {
  return sum_rightmost(base_->entropy(), count_);
}

Tensor Independent::enumerate_support(bool expand) const {
  if (count_ == 0) return base_->enumerate_support(expand);
  throw Error(ErrorCode::not_implemented, "Enumeration over cartesian product is not implemented");
}

Constraint Independent::support() const {
  return count_ == 0 ? base_->support() : constraints::independent(base_->support(), count_);
}

std::string Independent::str() const {
  return class_name() + "(" + base_->str() + ", " + std::to_string(count_) + ")";
}

TransformedDistribution::TransformedDistribution(const Distribution& base, const Transform& transform,
                                                 const Options& options)
    : TransformedDistribution(base, std::vector<Transform>{transform}, options) {}

TransformedDistribution::TransformedDistribution(const Distribution& base, const std::vector<Transform>& transforms,
                                                 const Options& options)
    : DistributionOf(Shape(), Shape(), options.validate_args), base_(base.copy()), transforms_(transforms) {
  const ComposeTransform all(transforms);
  const Shape sizes = joined(base.batch_shape(), base.event_shape());
  const std::int64_t base_dims = rank(base.event_shape());
  const std::int64_t in = all.domain().event_dim, out = all.codomain().event_dim;
  if (rank(sizes) < in) {
    std::ostringstream text;
    text << "base_distribution needs to have shape with size at least " << in << ", but got " << sizes << ".";
    throw Error(ErrorCode::value, text.str());
  }
  const Shape after = all.forward_shape(sizes), before = all.inverse_shape(after);
  if (before != sizes) base_ = base_->expanded(first_dims(before, before.size() - base.event_shape().size()));
  if (in > base_dims) base_ = std::make_shared<Independent>(*base_, in - base_dims);
  set_shapes(after, static_cast<std::size_t>(std::max(out, base_dims + out - in)));
}

void TransformedDistribution::repeat_to(const Shape& batch_shape) {
  Shape sizes = joined(batch_shape, event_shape());
  for (std::size_t i = transforms_.size(); i > 0; --i) sizes = transforms_[i - 1].inverse_shape(sizes);
  base_ = base_->expanded(first_dims(sizes, sizes.size() - base_->event_shape().size()));
  set_batch_shape(batch_shape);
}

TransformedDistribution TransformedDistribution::expand(const Shape& batch_shape) const {
  TransformedDistribution result(*this);
  result.repeat_to(batch_shape);
  return result;
}

Constraint TransformedDistribution::support() const {
  if (transforms_.empty()) return base_->support();
  const Constraint last = transforms_.back().codomain();
  const std::int64_t more = rank(event_shape()) - last.event_dim;
  return more > 0 ? constraints::independent(last, more) : last;
}

Tensor TransformedDistribution::transformed(const Tensor& x) const {
  Tensor value = x;
  for (const Transform& transform : transforms_) value = transform(value);
  return value;
}

Tensor TransformedDistribution::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  return transformed(base_->sample(sample_shape));
}

Tensor TransformedDistribution::rsample(const Shape& sample_shape) const {
  return transformed(base_->rsample(sample_shape));
}

Tensor TransformedDistribution::log_prob(const Tensor& value) const {
  check_sample(value);
  std::int64_t event_dim = rank(event_shape());
  Tensor sum, y = value;
  for (std::size_t i = transforms_.size(); i > 0; --i) {
    const Transform& f = transforms_[i - 1];
    const Tensor x = f.inv()(y);
    const std::int64_t in = f.domain().event_dim;
    event_dim += in - f.codomain().event_dim;
    const Tensor term = -sum_rightmost(f.log_abs_det_jacobian(x, y), event_dim - in);
    sum = sum.defined() ? sum + term : term;
    y = x;
  }
  const Tensor of_base = sum_rightmost(base_->log_prob(y), event_dim - rank(base_->event_shape()));
  return sum.defined() ? sum + of_base : of_base;
}

Tensor TransformedDistribution::monotone(const Tensor& probability) const {
  const Argument sign = ComposeTransform(transforms_).sign();
  if (!sign.is_number()) return sign.tensor() * (probability - 0.5) + 0.5;
  return sign.number() == 1 ? probability : (probability - 0.5) * sign.number() + 0.5;
}

Tensor TransformedDistribution::cdf(const Tensor& value) const {
  Tensor x = value;
  for (std::size_t i = transforms_.size(); i > 0; --i) x = transforms_[i - 1].inv()(x);
  if (validates_args()) base_->validate_sample(x);
  return monotone(base_->cdf(x));
}

Tensor TransformedDistribution::icdf(const Tensor& probability) const {
  return transformed(base_->icdf(monotone(probability)));
}

LogNormal::LogNormal(const Argument& loc, const Argument& scale, const Options& options)
    : DistributionOf(Normal(loc, scale, options), ExpTransform(), options) {
  validate();
}

LogNormal LogNormal::expand(const Shape& batch_shape) const {
  LogNormal result(*this);
  result.repeat_to(batch_shape);
  return result;
}

const Normal& LogNormal::normal() const {
  return static_cast<const Normal&>(base_dist());
}

std::vector<Distribution::Parameter> LogNormal::parameters() const {
  return {{"loc", loc(), constraints::real(), false}, {"scale", scale(), constraints::positive(), false}};
}

Tensor LogNormal::mean() const {
  return (loc() + scale().pow(2) / 2).exp();
}
Tensor LogNormal::mode() const {
  return (loc() - scale().square()).exp();
}
Tensor LogNormal::variance() const {
  const Tensor square = scale().pow(2);
  return square.expm1() * (loc() * 2 + square).exp();
}
Tensor LogNormal::entropy() const {
  return base_dist().entropy() + loc();
}

LogisticNormal::LogisticNormal(const Argument& loc, const Argument& scale, const Options& options)
    : DistributionOf(vector_of(Normal(loc, scale, options)), StickBreakingTransform(), options) {
  validate();
}

LogisticNormal LogisticNormal::expand(const Shape& batch_shape) const {
  LogisticNormal result(*this);
  result.repeat_to(batch_shape);
  return result;
}

const Normal& LogisticNormal::normal() const {
  return static_cast<const Normal&>(static_cast<const Independent&>(base_dist()).base_dist());
}

std::vector<Distribution::Parameter> LogisticNormal::parameters() const {
  return {{"loc", loc(), constraints::real(), false}, {"scale", scale(), constraints::positive(), false}};
}

}  // namespace core::distributions

#include "libcore/distributions/folded.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"

namespace core::distributions {

template <class D, class Unfolded>
Folded<D, Unfolded>::Folded(const Argument& scale, const Options& options)
    : DistributionOf<D, TransformedDistribution>(Unfolded(0, scale, {.validate_args = false}), AbsTransform(),
                                                 options) {}

template <class D, class Unfolded>
D Folded<D, Unfolded>::expand(const Shape& batch_shape) const {
  D result(static_cast<const D&>(*this));
  result.repeat_to(batch_shape);
  return result;
}

template <class D, class Unfolded>
std::vector<Distribution::Parameter> Folded<D, Unfolded>::parameters() const {
  return {{"scale", scale(), constraints::positive(), false}};
}

template <class D, class Unfolded>
Tensor Folded<D, Unfolded>::mode() const {
  return zeros_like(scale());
}

template <class D, class Unfolded>
Tensor Folded<D, Unfolded>::log_prob(const Tensor& value) const {
  this->check_sample(value);
  const Tensor twice = unfolded().log_prob(value) + std::log(2.0);
  return where(value >= 0, twice, -std::numeric_limits<double>::infinity());
}

template <class D, class Unfolded>
Tensor Folded<D, Unfolded>::cdf(const Tensor& value) const {
  this->check_sample(value);
  return unfolded().cdf(value) * 2 - 1;
}

template <class D, class Unfolded>
Tensor Folded<D, Unfolded>::icdf(const Tensor& probability) const {
  return unfolded().icdf((probability + 1) / 2);
}

template <class D, class Unfolded>
Tensor Folded<D, Unfolded>::entropy() const {
  return unfolded().entropy() - std::log(2.0);
}

template class Folded<HalfNormal, Normal>;
template class Folded<HalfCauchy, Cauchy>;

HalfNormal::HalfNormal(const Argument& scale, const Options& options) : Folded(scale, options) {
  validate();
}

Tensor HalfNormal::mean() const {
  return scale() * std::sqrt(2 / std::numbers::pi);
}
Tensor HalfNormal::variance() const {
  return scale().pow(2) * (1 - 2 / std::numbers::pi);
}

HalfCauchy::HalfCauchy(const Argument& scale, const Options& options) : Folded(scale, options) {
  validate();
}

Tensor HalfCauchy::log_prob(const Tensor& value) const {
  return Folded::log_prob(value.to(scale()));
}

Tensor HalfCauchy::mean() const {
  return full_like(scale(), std::numeric_limits<double>::infinity());
}
Tensor HalfCauchy::variance() const {
  return unfolded().variance();
}

}  // namespace core::distributions

#pragma once
// HalfNormal and HalfCauchy, as torch.distributions: the size of a number that lies around 0. Thread safety: plain
// values. Use: core::distributions::HalfNormal width(2.0); core::Tensor s = width.sample({4});

#include "libcore/distributions/transformed.h"

namespace core::distributions {

/// What the two share; Unfolded: the distribution around 0.
template <class D, class Unfolded>
class Folded : public DistributionOf<D, TransformedDistribution> {
 public:
  D expand(const Shape& batch_shape) const;
  const Tensor& scale() const { return unfolded().scale(); }
  Tensor mode() const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::nonnegative(); }
  std::vector<Distribution::Parameter> parameters() const override;

 protected:
  Folded(const Argument& scale, const Options& options);
  const Unfolded& unfolded() const { return static_cast<const Unfolded&>(this->base_dist()); }
};

/// |x| of a normal x around 0.
class HalfNormal : public Folded<HalfNormal, Normal> {
 public:
  /// scale: the standard deviation of x.
  explicit HalfNormal(const Argument& scale, const Options& options = {});
  Tensor mean() const override;
  Tensor variance() const override;
};

/// |x| of a Cauchy x around 0: mean and variance are infinite.
class HalfCauchy : public Folded<HalfCauchy, Cauchy> {
 public:
  explicit HalfCauchy(const Argument& scale, const Options& options = {});
  /// Of the value in the scale's dtype.
  Tensor log_prob(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;
};

extern template class Folded<HalfNormal, Normal>;
extern template class Folded<HalfCauchy, Cauchy>;

}  // namespace core::distributions

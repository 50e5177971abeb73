#pragma once
// Gumbel, Weibull, Pareto, GeneralizedPareto, as torch.distributions: the largest of many, and what lies above a bound.
// Thread safety: plain values. Use: core::distributions::Weibull lifetime(1000.0, 1.5); lifetime.mean();

#include <vector>

#include "libcore/distributions/transformed.h"

namespace core::distributions {

class Gumbel : public DistributionOf<Gumbel, TransformedDistribution> {
 public:
  Gumbel(const Argument& loc, const Argument& scale, const Options& options = {});
  Gumbel expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }
  Tensor mean() const override;
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::real(); }
  std::vector<Parameter> parameters() const override;

 private:
  Gumbel(const std::vector<Tensor>& both, const Options& options);
  Tensor loc_, scale_;
};

class Weibull : public DistributionOf<Weibull, TransformedDistribution> {
 public:
  Weibull(const Argument& scale, const Argument& concentration, const Options& options = {});
  Weibull expand(const Shape& batch_shape) const;
  const Tensor& scale() const { return scale_; }
  const Tensor& concentration() const { return concentration_; }
  Tensor mean() const override;
  /// NaN where the concentration is below 1.
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::positive(); }
  std::vector<Parameter> parameters() const override;

 private:
  Weibull(const std::vector<Tensor>& both, const Options& options);
  Tensor scale_, concentration_;
};

/// From `scale` on, with a probability of (scale / x)^alpha to be above x.
class Pareto : public DistributionOf<Pareto, TransformedDistribution> {
 public:
  Pareto(const Argument& scale, const Argument& alpha, const Options& options = {});
  Pareto expand(const Shape& batch_shape) const;
  const Tensor& scale() const { return scale_; }
  const Tensor& alpha() const { return alpha_; }
  /// Infinite where alpha is 1 or less.
  Tensor mean() const override;
  Tensor mode() const override { return scale_; }
  /// Infinite where alpha is 2 or less.
  Tensor variance() const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::greater_than_eq(scale_); }
  std::vector<Parameter> parameters() const override;

 private:
  Pareto(const std::vector<Tensor>& both, const Options& options);
  Tensor scale_, alpha_;
};

/// From loc on; up to loc - scale / concentration where the concentration is negative.
class GeneralizedPareto : public DistributionOf<GeneralizedPareto> {
 public:
  GeneralizedPareto(const Argument& loc, const Argument& scale, const Argument& concentration,
                    const Options& options = {});
  GeneralizedPareto expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }
  const Tensor& concentration() const { return concentration_; }
  /// NaN where the concentration is 1 or more; the variance where it is 1/2 or more.
  Tensor mean() const override;
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  /// The logarithm of the probability to be above the value, and of cdf().
  Tensor log_survival_function(const Tensor& value) const;
  Tensor log_cdf(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  Constraint support() const override;
  std::vector<Parameter> parameters() const override;

 private:
  GeneralizedPareto(const std::vector<Tensor>& all, const Options& options);
  Tensor in_scales(const Tensor& value) const;
  Tensor loc_, scale_, concentration_;
};

}  // namespace core::distributions

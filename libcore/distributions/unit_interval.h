#pragma once
// ContinuousBernoulli and Kumaraswamy, as torch.distributions: numbers from 0 to 1. Thread safety: plain values.
// Use: core::distributions::ContinuousBernoulli pixel({.logits = core::zeros({28, 28})}); core::Tensor x =
// pixel.rsample();

#include <vector>

#include "libcore/distributions/discrete.h"
#include "libcore/distributions/transformed.h"

namespace core::distributions {

/// The probabilities around 1/2 for which formulas are replaced by the first terms of their series.
struct UnstableRegion {
  double low = 0.499;
  double high = 0.501;
};

/// Density in proportion to p^x (1 - p)^(1 - x). p is called `probs` and is no probability.
class ContinuousBernoulli : public DistributionOf<ContinuousBernoulli, BinaryDistribution>, public ExponentialFamily {
 public:
  /// Error(value) "The parameter probs has invalid values", where validate_args is given at all.
  explicit ContinuousBernoulli(const Argument& probs, const Options& options = {});
  explicit ContinuousBernoulli(const ProbsOrLogits& given, const UnstableRegion& unstable = {});
  ContinuousBernoulli expand(const Shape& batch_shape) const;
  /// A little above 0 and below 1.
  Tensor probs() const;
  Tensor mean() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  /// The logarithm of what makes the density one.
  Tensor log_norm() const;
  Constraint support() const override { return constraints::unit_interval(); }
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }

 private:
  Tensor is_stable() const;
  Tensor stable_probs() const;

  UnstableRegion unstable_;
};

/// With a probability of 1 - (1 - x^concentration1)^concentration0 to be below x.
class Kumaraswamy : public DistributionOf<Kumaraswamy, TransformedDistribution> {
 public:
  Kumaraswamy(const Argument& concentration1, const Argument& concentration0, const Options& options = {});
  Kumaraswamy expand(const Shape& batch_shape) const;
  const Tensor& concentration1() const { return concentration1_; }
  const Tensor& concentration0() const { return concentration0_; }
  Tensor mean() const override;
  /// NaN where one of the two is below 1.
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::unit_interval(); }
  std::vector<Parameter> parameters() const override;

 private:
  Kumaraswamy(const std::vector<Tensor>& both, const Options& options);
  Tensor moment(double n) const;
  Tensor concentration1_, concentration0_;
};

}  // namespace core::distributions

#pragma once
// Concrete distributions, as torch.distributions: draws between yes and no, or between categories, with gradients of
// the probabilities. Thread safety: plain values.
// Use: core::distributions::RelaxedOneHotCategorical soft(0.5, {.logits = scores}); core::Tensor y = soft.rsample();

#include <vector>

#include "libcore/distributions/categorical.h"
#include "libcore/distributions/discrete.h"
#include "libcore/distributions/transformed.h"

namespace core::distributions {

/// The log-odds of RelaxedBernoulli.
class LogitRelaxedBernoulli : public DistributionOf<LogitRelaxedBernoulli, BinaryDistribution> {
 public:
  /// temperature: above 0; draws are the nearer to 0 and 1 the lower it is.
  LogitRelaxedBernoulli(const Argument& temperature, const Argument& probs, const Options& options = {});
  LogitRelaxedBernoulli(const Argument& temperature, const ProbsOrLogits& given);
  LogitRelaxedBernoulli expand(const Shape& batch_shape) const;
  const Tensor& temperature() const { return temperature_; }
  /// Works, though has_rsample() says no, as PyTorch's.
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::real(); }

 private:
  Tensor temperature_;
};

class RelaxedBernoulli : public DistributionOf<RelaxedBernoulli, TransformedDistribution> {
 public:
  RelaxedBernoulli(const Argument& temperature, const Argument& probs, const Options& options = {});
  RelaxedBernoulli(const Argument& temperature, const ProbsOrLogits& given);
  RelaxedBernoulli expand(const Shape& batch_shape) const;
  const Tensor& temperature() const { return base().temperature(); }
  Tensor probs() const { return base().probs(); }
  Tensor logits() const { return base().logits(); }
  bool has_rsample() const override { return true; }
  Constraint support() const override { return constraints::unit_interval(); }
  std::vector<Parameter> parameters() const override;

 private:
  const LogitRelaxedBernoulli& base() const { return static_cast<const LogitRelaxedBernoulli&>(base_dist()); }
};

/// The logarithms of RelaxedOneHotCategorical.
class ExpRelaxedCategorical : public DistributionOf<ExpRelaxedCategorical> {
 public:
  ExpRelaxedCategorical(const Argument& temperature, const Tensor& probs, const Options& options = {});
  ExpRelaxedCategorical(const Argument& temperature, const ProbsOrLogits& given);
  ExpRelaxedCategorical expand(const Shape& batch_shape) const;
  const Tensor& temperature() const { return temperature_; }
  Tensor probs() const { return categorical_.probs(); }
  Tensor logits() const { return categorical_.logits(); }
  const Shape& param_shape() const { return categorical_.param_shape(); }
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::real_vector(); }
  std::vector<Parameter> parameters() const override;

 private:
  Tensor temperature_;
  Categorical categorical_;
};

/// Vectors of numbers above 0 that sum to 1.
class RelaxedOneHotCategorical : public DistributionOf<RelaxedOneHotCategorical, TransformedDistribution> {
 public:
  RelaxedOneHotCategorical(const Argument& temperature, const Tensor& probs, const Options& options = {});
  RelaxedOneHotCategorical(const Argument& temperature, const ProbsOrLogits& given);
  RelaxedOneHotCategorical expand(const Shape& batch_shape) const;
  const Tensor& temperature() const { return base().temperature(); }
  Tensor probs() const { return base().probs(); }
  Tensor logits() const { return base().logits(); }
  Constraint support() const override { return constraints::simplex(); }
  std::vector<Parameter> parameters() const override;

 private:
  const ExpRelaxedCategorical& base() const { return static_cast<const ExpRelaxedCategorical&>(base_dist()); }
};

}  // namespace core::distributions

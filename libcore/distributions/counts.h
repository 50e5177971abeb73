#pragma once
// NegativeBinomial and Multinomial, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::Multinomial dice(10, core::ones({6})); core::Tensor counts = dice.sample();

#include <cstdint>
#include <vector>

#include "libcore/distributions/categorical.h"
#include "libcore/distributions/discrete.h"

namespace core::distributions {

/// Successes before the total_count-th failure.
class NegativeBinomial : public DistributionOf<NegativeBinomial, BinaryDistribution> {
 public:
  /// total_count: not negative, and need not be whole; probs: of a success, below 1.
  NegativeBinomial(const Argument& total_count, const Argument& probs, const Options& options = {});
  NegativeBinomial(const Argument& total_count, const ProbsOrLogits& given);
  NegativeBinomial expand(const Shape& batch_shape) const;
  const Tensor& total_count() const { return total_count_; }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::nonnegative_integer(); }
  std::vector<Parameter> parameters() const override;

 private:
  Tensor total_count_;
};

/// How often each category comes in total_count draws.
class Multinomial : public DistributionOf<Multinomial> {
 public:
  /// probs: (batch_shape, categories), not below 0; they need not sum to 1.
  Multinomial(std::int64_t total_count, const Tensor& probs, const Options& options = {});
  Multinomial(std::int64_t total_count, const ProbsOrLogits& given);
  Multinomial expand(const Shape& batch_shape) const;
  std::int64_t total_count() const { return total_count_; }
  /// Normalized.
  Tensor probs() const { return categorical_.probs(); }
  Tensor logits() const { return categorical_.logits(); }
  const Shape& param_shape() const { return categorical_.param_shape(); }
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::multinomial(total_count_); }
  std::vector<Parameter> parameters() const override;

 private:
  std::int64_t total_count_;
  Categorical categorical_;
  Binomial of_each_;
};

}  // namespace core::distributions

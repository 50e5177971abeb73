#pragma once
// Categorical and OneHotCategorical, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::Categorical policy({.logits = logits}); core::Tensor action = policy.sample();

#include "libcore/distributions/distribution.h"

namespace core::distributions {

/// 0 .. categories - 1.
class Categorical : public DistributionOf<Categorical> {
 public:
  /// probs: (batch_shape, categories), not below 0; they need not sum to 1.
  explicit Categorical(const Tensor& probs, const Options& options = {});
  explicit Categorical(const ProbsOrLogits& given);
  Categorical expand(const Shape& batch_shape) const;
  /// Normalized.
  Tensor probs() const;
  Tensor logits() const;
  /// (batch_shape, categories).
  const Shape& param_shape() const { return parameter().sizes(); }
  /// NaN, as the variance.
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor enumerate_support(bool expand = true) const override;
  bool has_enumerate_support() const override { return true; }
  Constraint support() const override;
  std::vector<Parameter> parameters() const override;

 private:
  friend class OneHotCategorical;
  const Tensor& parameter() const { return probs_.defined() ? probs_ : logits_; }
  std::int64_t categories() const { return parameter().size(-1); }

  Tensor probs_, logits_;
};

/// Vectors of zeros and a one.
class OneHotCategorical : public DistributionOf<OneHotCategorical> {
 public:
  explicit OneHotCategorical(const Tensor& probs, const Options& options = {});
  explicit OneHotCategorical(const ProbsOrLogits& given);
  OneHotCategorical expand(const Shape& batch_shape) const;
  Tensor probs() const { return categorical_.probs(); }
  Tensor logits() const { return categorical_.logits(); }
  const Shape& param_shape() const { return categorical_.param_shape(); }
  const Categorical& categorical() const { return categorical_; }
  Tensor mean() const override { return probs(); }
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override { return categorical_.entropy(); }
  Tensor enumerate_support(bool expand = true) const override;
  bool has_enumerate_support() const override { return true; }
  Constraint support() const override { return constraints::one_hot(); }
  std::vector<Parameter> parameters() const override;

 protected:
  void repeat_to(const Shape& batch_shape);

 private:
  Categorical categorical_;
};

/// rsample() gives samples whose gradient is that of the probabilities.
class OneHotCategoricalStraightThrough : public DistributionOf<OneHotCategoricalStraightThrough, OneHotCategorical> {
 public:
  explicit OneHotCategoricalStraightThrough(const Tensor& probs, const Options& options = {});
  explicit OneHotCategoricalStraightThrough(const ProbsOrLogits& given);
  OneHotCategoricalStraightThrough expand(const Shape& batch_shape) const;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
};

}  // namespace core::distributions

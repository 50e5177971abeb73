#pragma once
// Bernoulli, Binomial, Geometric, Poisson, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::Bernoulli coin(0.3), other({.logits = x}); core::Tensor heads = coin.sample({10});

#include "libcore/distributions/distribution.h"
#include "libcore/distributions/exponential_family.h"

namespace core::distributions {

/// What those of yes or no share: the probability of a yes, or its log-odds.
class BinaryDistribution : public Distribution {
 public:
  Tensor probs() const;
  Tensor logits() const;
  std::vector<Parameter> parameters() const override;

 protected:
  BinaryDistribution(const Argument& probs, const Options& options);
  /// Error(value) "Either `probs` or `logits` must be specified, but not both."
  explicit BinaryDistribution(const ProbsOrLogits& given);
  void repeat_to(const Shape& batch_shape);
  bool has_probs() const { return probs_.defined(); }
  /// The one that was given.
  const Tensor& parameter() const { return probs_.defined() ? probs_ : logits_; }
  /// 0 .. count - 1 along dimension 0.
  Tensor first_numbers(std::int64_t count, bool expand) const;

 private:
  Tensor probs_, logits_;
};

class Bernoulli : public DistributionOf<Bernoulli, BinaryDistribution>, public ExponentialFamily {
 public:
  explicit Bernoulli(const Argument& probs, const Options& options = {});
  explicit Bernoulli(const ProbsOrLogits& given);
  Bernoulli expand(const Shape& batch_shape) const;
  Tensor mean() const override { return probs(); }
  /// NaN for one half.
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor enumerate_support(bool expand = true) const override { return first_numbers(2, expand); }
  bool has_enumerate_support() const override { return true; }
  Constraint support() const override { return constraints::boolean(); }
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }
};

class Binomial : public DistributionOf<Binomial, BinaryDistribution> {
 public:
  /// Successes of total_count tries.
  Binomial(const Argument& total_count, const Argument& probs, const Options& options = {});
  Binomial(const Argument& total_count, const ProbsOrLogits& given);
  Binomial expand(const Shape& batch_shape) const;
  const Tensor& total_count() const { return total_count_; }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  /// Error(not_implemented) where the counts differ: "Inhomogeneous total count not supported by `entropy`."
  Tensor entropy() const override;
  Tensor enumerate_support(bool expand = true) const override;
  bool has_enumerate_support() const override { return true; }
  Constraint support() const override;
  std::vector<Parameter> parameters() const override;

 private:
  std::int64_t one_count(const char* what) const;
  Tensor total_count_;
};

/// Failures before the first success.
class Geometric : public DistributionOf<Geometric, BinaryDistribution> {
 public:
  explicit Geometric(const Argument& probs, const Options& options = {});
  explicit Geometric(const ProbsOrLogits& given);
  Geometric expand(const Shape& batch_shape) const;
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::nonnegative_integer(); }

 private:
  void validate_positive() const;
};

class Poisson : public DistributionOf<Poisson>, public ExponentialFamily {
 public:
  explicit Poisson(const Argument& rate, const Options& options = {});
  Poisson expand(const Shape& batch_shape) const;
  const Tensor& rate() const { return rate_; }
  Tensor mean() const override { return rate_; }
  Tensor mode() const override;
  Tensor variance() const override { return rate_; }
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::nonnegative_integer(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;

 private:
  Tensor rate_;
};

}  // namespace core::distributions

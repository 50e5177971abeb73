#pragma once
// Gamma, Chi2, Beta, Dirichlet, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::Beta beta(2.0, 5.0); core::Tensor p = beta.rsample({4});

#include <optional>

#include "libcore/distributions/distribution.h"
#include "libcore/distributions/exponential_family.h"
#include "libcore/tensor/generator.h"

namespace core::distributions {

class Gamma : public DistributionOf<Gamma>, public ExponentialFamily {
 public:
  /// rate: 1 / scale.
  Gamma(const Argument& concentration, const Argument& rate, const Options& options = {});
  Gamma expand(const Shape& batch_shape) const;
  const Tensor& concentration() const { return concentration_; }
  const Tensor& rate() const { return rate_; }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  /// With gradients of the value and the rate; Error(not_implemented) for that of the concentration, as PyTorch.
  Tensor cdf(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::nonnegative(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }

 protected:
  /// Without the checks, which the class that derives from it has.
  Gamma(const std::vector<Tensor>& both, const Options& options);
  void repeat_to(const Shape& batch_shape);

 private:
  Tensor concentration_, rate_;
};

/// Gamma(df / 2, 1 / 2).
class Chi2 : public DistributionOf<Chi2, Gamma> {
 public:
  explicit Chi2(const Argument& df, const Options& options = {});
  Chi2 expand(const Shape& batch_shape) const;
  Tensor df() const;
  std::vector<Parameter> parameters() const override;
};

class Dirichlet : public DistributionOf<Dirichlet>, public ExponentialFamily {
 public:
  /// concentration: (batch_shape, categories).
  explicit Dirichlet(const Tensor& concentration, const Options& options = {});
  Dirichlet expand(const Shape& batch_shape) const;
  const Tensor& concentration() const { return concentration_; }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::simplex(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;

 private:
  Tensor concentration_;
};

class Beta : public DistributionOf<Beta>, public ExponentialFamily {
 public:
  Beta(const Argument& concentration1, const Argument& concentration0, const Options& options = {});
  Beta expand(const Shape& batch_shape) const;
  Tensor concentration1() const;
  Tensor concentration0() const;
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::unit_interval(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;

 private:
  Beta(const Dirichlet& both, const Options& options);
  Dirichlet both_;
};

}  // namespace core::distributions

#pragma once
// Normal, Uniform, Exponential, Laplace, Cauchy, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::Normal normal(core::zeros({3}), 2.0); core::Tensor z = normal.rsample({5});

#include "libcore/distributions/distribution.h"
#include "libcore/distributions/exponential_family.h"

namespace core::distributions {

/// What Normal, Laplace and Cauchy share: a place and a width.
class LocationScale : public Distribution {
 public:
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  bool has_rsample() const override { return true; }
  Constraint support() const override { return constraints::real(); }
  std::vector<Parameter> parameters() const override;

 protected:
  LocationScale(const Argument& loc, const Argument& scale, const Options& options);
  void repeat_to(const Shape& batch_shape);

 private:
  LocationScale(const std::vector<Tensor>& both, const Options& options);
  Tensor loc_, scale_;
};

class Normal : public DistributionOf<Normal, LocationScale>, public ExponentialFamily {
 public:
  /// scale: the standard deviation.
  Normal(const Argument& loc, const Argument& scale, const Options& options = {});
  Normal expand(const Shape& batch_shape) const;
  Tensor variance() const override;
  Tensor stddev() const override { return scale(); }
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }
};

class Laplace : public DistributionOf<Laplace, LocationScale> {
 public:
  Laplace(const Argument& loc, const Argument& scale, const Options& options = {});
  Laplace expand(const Shape& batch_shape) const;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
};

/// Without a mean (NaN) and with an infinite variance.
class Cauchy : public DistributionOf<Cauchy, LocationScale> {
 public:
  /// scale: half of the width at half of the height.
  Cauchy(const Argument& loc, const Argument& scale, const Options& options = {});
  Cauchy expand(const Shape& batch_shape) const;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
};

/// [low, high).
class Uniform : public DistributionOf<Uniform> {
 public:
  Uniform(const Argument& low, const Argument& high, const Options& options = {});
  Uniform expand(const Shape& batch_shape) const;
  const Tensor& low() const { return low_; }
  const Tensor& high() const { return high_; }
  Tensor mean() const override;
  /// NaN.
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::interval(low_, high_); }
  std::vector<Parameter> parameters() const override;

 private:
  Uniform(const std::vector<Tensor>& both, const Options& options);
  Tensor low_, high_;
};

class Exponential : public DistributionOf<Exponential>, public ExponentialFamily {
 public:
  /// rate: 1 / scale.
  explicit Exponential(const Argument& rate, const Options& options = {});
  Exponential expand(const Shape& batch_shape) const;
  const Tensor& rate() const { return rate_; }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::nonnegative(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }

 private:
  Tensor rate_;
};

}  // namespace core::distributions

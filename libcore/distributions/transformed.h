#pragma once
// Independent, TransformedDistribution, LogNormal and LogisticNormal, as torch.distributions. Thread safety: plain
// values. Use: namespace dist = core::distributions;
//      dist::Independent diagonal(dist::Normal(core::zeros({3}), 1.0), 1);
//      dist::TransformedDistribution logistic(dist::Uniform(0.0, 1.0), dist::SigmoidTransform().inv());

#include <memory>
#include <vector>

#include "libcore/distributions/continuous.h"
#include "libcore/distributions/distribution.h"
#include "libcore/distributions/transforms.h"

namespace core::distributions {

/// The last `count` dimensions of the batch belong to one value.
class Independent : public DistributionOf<Independent> {
 public:
  /// Error(value) "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual 2 vs 1".
  Independent(const Distribution& base, std::int64_t count, const Options& options = {});
  Independent expand(const Shape& batch_shape) const;
  const Distribution& base_dist() const { return *base_; }
  std::int64_t reinterpreted_batch_ndims() const { return count_; }
  Tensor mean() const override { return base_->mean(); }
  Tensor mode() const override { return base_->mode(); }
  Tensor variance() const override { return base_->variance(); }
  bool has_rsample() const override { return base_->has_rsample(); }
  Tensor sample(const Shape& sample_shape = {}) const override { return base_->sample(sample_shape); }
  Tensor rsample(const Shape& sample_shape = {}) const override { return base_->rsample(sample_shape); }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor enumerate_support(bool expand = true) const override;
  bool has_enumerate_support() const override { return count_ == 0 && base_->has_enumerate_support(); }
  Constraint support() const override;
  std::string str() const override;

 private:
  std::shared_ptr<const Distribution> base_;
  std::int64_t count_;
};

/// f(x) for draws x of another distribution.
class TransformedDistribution : public DistributionOf<TransformedDistribution> {
 public:
  TransformedDistribution(const Distribution& base, const std::vector<Transform>& transforms,
                          const Options& options = {});
  TransformedDistribution(const Distribution& base, const Transform& transform, const Options& options = {});
  TransformedDistribution expand(const Shape& batch_shape) const;
  const Distribution& base_dist() const { return *base_; }
  const std::vector<Transform>& transforms() const { return transforms_; }
  bool has_rsample() const override { return base_->has_rsample(); }
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Constraint support() const override;

 protected:
  void repeat_to(const Shape& batch_shape);

 private:
  /// 1 - probability where the transforms together fall.
  Tensor monotone(const Tensor& probability) const;
  Tensor transformed(const Tensor& x) const;

  std::shared_ptr<const Distribution> base_;
  std::vector<Transform> transforms_;
};

/// exp() of a normal number.
class LogNormal : public DistributionOf<LogNormal, TransformedDistribution> {
 public:
  LogNormal(const Argument& loc, const Argument& scale, const Options& options = {});
  LogNormal expand(const Shape& batch_shape) const;
  /// Those of the normal distribution.
  const Tensor& loc() const { return normal().loc(); }
  const Tensor& scale() const { return normal().scale(); }
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::positive(); }
  std::vector<Parameter> parameters() const override;

 private:
  const Normal& normal() const;
};

/// From a vector of independent normal numbers one of one number more that is above 0 and sums to 1, by
/// StickBreakingTransform.
class LogisticNormal : public DistributionOf<LogisticNormal, TransformedDistribution> {
 public:
  /// Those of the normal numbers: (batch_shape, n); without dimensions as one number.
  LogisticNormal(const Argument& loc, const Argument& scale, const Options& options = {});
  LogisticNormal expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return normal().loc(); }
  const Tensor& scale() const { return normal().scale(); }
  Constraint support() const override { return constraints::simplex(); }
  std::vector<Parameter> parameters() const override;

 private:
  const Normal& normal() const;
};

}  // namespace core::distributions

#pragma once
// MixtureSameFamily, as torch.distributions. Thread safety: plain values.
// Use: namespace dist = core::distributions;
//      dist::MixtureSameFamily two(dist::Categorical(core::ones({2})), dist::Normal(core::tensor({-1.0, 1.0}), 0.3));

#include <cstdint>
#include <memory>

#include "libcore/distributions/categorical.h"

namespace core::distributions {

/// A draw is one of a component, which the mixture chooses.
class MixtureSameFamily : public DistributionOf<MixtureSameFamily> {
 public:
  /// components: the last dimension of its batch counts them. Errors (value): "`mixture_distribution component` (3)
  /// does not equal `component_distribution.batch_shape[-1]` (2)" and its sibling.
  MixtureSameFamily(const Categorical& mixture, const Distribution& components, const Options& options = {});
  MixtureSameFamily expand(const Shape& batch_shape) const;
  const Categorical& mixture_distribution() const { return mixture_; }
  const Distribution& component_distribution() const { return *components_; }
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  /// Of components of single numbers.
  Tensor cdf(const Tensor& value) const override;
  Constraint support() const override { return constraints::mixture_same_family(components_->support()); }
  std::string str() const override;

 private:
  /// The dimension of the components, from behind.
  std::int64_t component_dim() const { return -1 - static_cast<std::int64_t>(event_shape().size()); }
  /// With a dimension for the components.
  Tensor padded(const Tensor& value) const { return value.unsqueeze(component_dim()); }
  Tensor weighted(const Tensor& of_components) const;

  Categorical mixture_;
  std::shared_ptr<const Distribution> components_;
};

}  // namespace core::distributions

#pragma once
// VonMises, as torch.distributions: angles around a direction. Thread safety: plain values.
// Use: core::distributions::VonMises heading(0.0, 4.0); core::Tensor angles = heading.sample({100});

#include <vector>

#include "libcore/distributions/distribution.h"

namespace core::distributions {

class VonMises : public DistributionOf<VonMises> {
 public:
  /// loc: in radians, and means the same a turn further; concentration: the larger, the nearer to loc.
  VonMises(const Argument& loc, const Argument& concentration, const Options& options = {});
  VonMises expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return loc_; }
  const Tensor& concentration() const { return concentration_; }
  /// Mean and variance of directions.
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  /// In [-pi, pi); computed in float64. Cost: numbers are drawn until each has been accepted once.
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::real(); }
  std::vector<Parameter> parameters() const override;

 private:
  VonMises(const std::vector<Tensor>& both, const Options& options);
  Tensor loc_, concentration_;
};

}  // namespace core::distributions

#pragma once
// ExponentialFamily: what Bernoulli, Beta, Normal and the others of this kind can do beside a distribution's own, as
// torch.distributions.ExponentialFamily. Thread safety: plain values.
// Use: core::distributions::Normal prior(0.0, 1.0);
//      core::Tensor norm = prior.log_normalizer(prior.natural_params());

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::distributions {

/// Densities exp(t(x) * theta - F(theta) + k(x)). A family of your own derives from DistributionOf and from this:
/// kl_divergence of two of its distributions is computed from F and its gradient.
class ExponentialFamily {
 public:
  virtual ~ExponentialFamily() = default;
  /// theta: tensors whose sizes begin with those of the batch.
  virtual std::vector<Tensor> natural_params() const = 0;
  /// F, of the batch's shape.
  virtual Tensor log_normalizer(const std::vector<Tensor>& natural_params) const = 0;
  /// The mean of k(x). Error(not_implemented) where a family has none.
  virtual double mean_carrier_measure() const;

 protected:
  /// entropy() from F and its gradient, for a family that has no formula of its own.
  Tensor entropy_by_gradient(const Shape& batch_shape) const;
};

/// F and its gradient at the natural parameters, which take no history with them.
struct NormalizerGradient {
  std::vector<Tensor> params;
  Tensor log_normalizer;
  std::vector<Tensor> gradients;
};
NormalizerGradient normalizer_gradient(const ExponentialFamily& family);

}  // namespace core::distributions

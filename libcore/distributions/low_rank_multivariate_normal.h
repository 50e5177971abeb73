#pragma once
// LowRankMultivariateNormal, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::LowRankMultivariateNormal normal(core::zeros({9}), core::ones({9, 1}), core::ones({9}));

#include <vector>

#include "libcore/distributions/distribution.h"

namespace core::distributions {

/// A normal vector whose covariance is W @ W^T + diag(d), for few columns of W: nothing as large as that is factored.
class LowRankMultivariateNormal : public DistributionOf<LowRankMultivariateNormal> {
 public:
  /// loc: (batch_shape, n); cov_factor W: (batch_shape, n, rank); cov_diag d: (batch_shape, n). Errors (value):
  /// "cov_factor must be a batch of matrices with shape 3 x m" and its siblings.
  LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor, const Tensor& cov_diag,
                            const Options& options = {});
  LowRankMultivariateNormal expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return loc_; }
  const Tensor& cov_factor() const { return cov_factor_; }
  const Tensor& cov_diag() const { return cov_diag_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  /// The lower triangular L of L @ L^T.
  Tensor scale_tril() const;
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::real_vector(); }
  std::vector<Parameter> parameters() const override;

  // For divergences.

  /// W and d without the sizes of loc.
  const Tensor& unbroadcasted_cov_factor() const { return factor_; }
  const Tensor& unbroadcasted_cov_diag() const { return diag_; }
  /// log det of the covariance.
  Tensor log_det() const;
  /// x^T covariance^-1 x over the last dimension of x.
  Tensor mahalanobis(const Tensor& x) const;
  /// A of covariance^-1 = diag(1 / d) - A^T @ A: (batch_shape, rank, n).
  Tensor precision_factor() const;

 private:
  Shape matrix_shape() const { return joined(joined(batch_shape(), event_shape()), event_shape()); }

  Tensor loc_, cov_factor_, cov_diag_, factor_, diag_;
  Tensor capacitance_tril_;  // the Cholesky factor of I + W^T diag(1 / d) W
};

}  // namespace core::distributions

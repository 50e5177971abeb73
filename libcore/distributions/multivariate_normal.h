#pragma once
// MultivariateNormal, as torch.distributions. Thread safety: plain values.
// Use: core::distributions::MultivariateNormal normal(core::zeros({2}), core::eye(2)); core::Tensor z =
// normal.rsample();

#include <optional>

#include "libcore/distributions/distribution.h"

namespace core::distributions {

/// One of the three: (batch_shape, n, n).
struct NormalMatrix {
  Tensor covariance_matrix = {};
  Tensor precision_matrix = {};
  Tensor scale_tril = {};  ///< the lower triangular L of L @ L^T, which all computations use
  std::optional<bool> validate_args = {};

  int count() const;
  // Of the one that is given:
  const char* name() const;
  const Tensor& matrix() const;
  /// L. Error: linalg::cholesky's.
  Tensor factor() const;
  /// It repeated to a batch, the others as they are.
  NormalMatrix expanded(const Shape& batch_shape) const;
  /// It and what it must satisfy.
  Distribution::Parameter parameter() const;
};

class MultivariateNormal : public DistributionOf<MultivariateNormal> {
 public:
  /// loc: (batch_shape, n). Errors (value): "Exactly one of covariance_matrix or precision_matrix or scale_tril may be
  /// specified." and its siblings.
  MultivariateNormal(const Tensor& loc, const Tensor& covariance_matrix, const Options& options = {});
  MultivariateNormal(const Tensor& loc, const NormalMatrix& matrix);
  MultivariateNormal expand(const Shape& batch_shape) const;
  const Tensor& loc() const { return loc_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor scale_tril() const;
  /// The matrix without the sizes of loc.
  const Tensor& unbroadcasted_scale_tril() const { return factor_; }
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::real_vector(); }
  std::vector<Parameter> parameters() const override;

 private:
  Shape matrix_shape() const { return joined(joined(batch_shape(), event_shape()), event_shape()); }

  Tensor loc_, factor_;
  NormalMatrix given_;
};

/// x^T (L L^T)^-1 x over the last dimension of x.
Tensor batch_mahalanobis(const Tensor& factor, const Tensor& x);
/// The sum of the logarithms on the diagonal: half of log det(L L^T).
Tensor half_log_det(const Tensor& factor);

}  // namespace core::distributions

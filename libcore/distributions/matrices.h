#pragma once
// Wishart and LKJCholesky, as torch.distributions: random matrices. Thread safety: plain values.
// Use: core::distributions::Wishart scatter(5.0, {.covariance_matrix = core::eye(3)}); core::Tensor s =
// scatter.rsample();

#include <cstdint>
#include <vector>

#include "libcore/distributions/exponential_family.h"
#include "libcore/distributions/gamma.h"
#include "libcore/distributions/multivariate_normal.h"

namespace core::distributions {

/// Positive definite n x n matrices: of df normal vectors around 0 the sum of x @ x^T.
class Wishart : public DistributionOf<Wishart>, public ExponentialFamily {
 public:
  /// df: above n - 1; warns below n. matrix: of the normal vectors. Errors: (assertion) "Exactly one of
  /// covariance_matrix or precision_matrix or scale_tril may be specified."; (value) "Value of df=1.0 expected to be
  /// greater than ndim - 1 = 1."
  Wishart(const Argument& df, const NormalMatrix& matrix);
  Wishart expand(const Shape& batch_shape) const;
  const Tensor& df() const { return df_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor scale_tril() const;
  Tensor mean() const override;
  /// NaN where df is n + 1 or less.
  Tensor mode() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  /// Draws at least twice and warns "Singular sample detected.", as PyTorch 2.15, which takes the first draws that are
  /// good for those that are not.
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::positive_definite(); }
  std::vector<Parameter> parameters() const override;
  std::vector<Tensor> natural_params() const override;
  Tensor log_normalizer(const std::vector<Tensor>& params) const override;
  double mean_carrier_measure() const override { return 0; }

 private:
  std::int64_t n() const { return event_shape()[0]; }
  Shape matrix_shape() const { return joined(batch_shape(), event_shape()); }
  Chi2 diagonal_squares() const;
  Tensor bartlett_sample(const Shape& sample_shape) const;
  /// Whether any of the batch is so, for each sample.
  Tensor any_of_batch(const Tensor& of_each) const;

  Tensor df_, factor_;
  NormalMatrix given_;
};

/// Lower triangular factors L of correlation matrices L @ L^T.
class LKJCholesky : public DistributionOf<LKJCholesky> {
 public:
  /// dim: rows and columns, at least 2; concentration: 1 for all matrices alike, above for those near the identity.
  explicit LKJCholesky(std::int64_t dim, const Argument& concentration = 1.0, const Options& options = {});
  LKJCholesky expand(const Shape& batch_shape) const;
  std::int64_t dim() const { return event_shape()[0]; }
  const Tensor& concentration() const { return concentration_; }
  Tensor sample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::corr_cholesky(); }
  std::vector<Parameter> parameters() const override;

 private:
  LKJCholesky(std::int64_t dim, const Tensor& concentration, const Options& options);
  Tensor concentration_;
  Beta squared_lengths_;  // of the rows without their diagonal
};

}  // namespace core::distributions

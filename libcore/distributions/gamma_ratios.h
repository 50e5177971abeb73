#pragma once
// StudentT, FisherSnedecor and InverseGamma, as torch.distributions: what is divided by numbers of a gamma
// distribution. Thread safety: plain values. Use: core::distributions::StudentT noise(4.0, 0.0, 0.1); core::Tensor e =
// noise.rsample({8});

#include <vector>

#include "libcore/distributions/gamma.h"
#include "libcore/distributions/transformed.h"

namespace core::distributions {

class StudentT : public DistributionOf<StudentT> {
 public:
  /// df: degrees of freedom.
  explicit StudentT(const Argument& df, const Argument& loc = 0.0, const Argument& scale = 1.0,
                    const Options& options = {});
  StudentT expand(const Shape& batch_shape) const;
  const Tensor& df() const { return df_; }
  const Tensor& loc() const { return loc_; }
  const Tensor& scale() const { return scale_; }
  /// NaN where df is 1 or less, as the variance, which is infinite up to 2.
  Tensor mean() const override;
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::real(); }
  std::vector<Parameter> parameters() const override;

 private:
  StudentT(const std::vector<Tensor>& all, const Options& options);
  Tensor df_, loc_, scale_;
  Chi2 chi2_;
};

/// The F distribution.
class FisherSnedecor : public DistributionOf<FisherSnedecor> {
 public:
  /// Degrees of freedom of the number above and of the one below.
  FisherSnedecor(const Argument& df1, const Argument& df2, const Options& options = {});
  FisherSnedecor expand(const Shape& batch_shape) const;
  const Tensor& df1() const { return df1_; }
  const Tensor& df2() const { return df2_; }
  /// NaN where df2 is 2 or less; the variance where it is 4 or less, the mode where df1 is 2 or less.
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return true; }
  Tensor rsample(const Shape& sample_shape = {}) const override;
  Tensor log_prob(const Tensor& value) const override;
  Constraint support() const override { return constraints::positive(); }
  std::vector<Parameter> parameters() const override;

 private:
  FisherSnedecor(const std::vector<Tensor>& both, const Options& options);
  Tensor df1_, df2_;
  Gamma above_, below_;
};

/// 1 / x of a gamma distribution's x.
class InverseGamma : public DistributionOf<InverseGamma, TransformedDistribution> {
 public:
  InverseGamma(const Argument& concentration, const Argument& rate, const Options& options = {});
  InverseGamma expand(const Shape& batch_shape) const;
  const Tensor& concentration() const { return gamma().concentration(); }
  const Tensor& rate() const { return gamma().rate(); }
  /// Infinite where the concentration is 1 or less; the variance where it is 2 or less.
  Tensor mean() const override;
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor entropy() const override;
  Constraint support() const override { return constraints::positive(); }
  std::vector<Parameter> parameters() const override;

 private:
  explicit InverseGamma(const Gamma& base, const Options& options);
  const Gamma& gamma() const { return static_cast<const Gamma&>(base_dist()); }
};

}  // namespace core::distributions

#include "libcore/distributions/gamma_ratios.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

Tensor minus_one(const Tensor& like) {
  return full({}, -1.0, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

StudentT::StudentT(const Argument& df, const Argument& loc, const Argument& scale, const Options& options)
    : StudentT(broadcast_all({df, loc, scale}), options) {}

StudentT::StudentT(const std::vector<Tensor>& all, const Options& options)
    : DistributionOf(all[0].sizes(), Shape(), options.validate_args),
      df_(all[0]),
      loc_(all[1]),
      scale_(all[2]),
      chi2_(all[0]) {
  validate();
}

StudentT StudentT::expand(const Shape& batch_shape) const {
  StudentT result(*this);
  for (Tensor* each : {&result.df_, &result.loc_, &result.scale_}) *each = each->expand(batch_shape);
  result.chi2_ = chi2_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> StudentT::parameters() const {
  return {{"df", df_, constraints::positive()},
          {"loc", loc_, constraints::real()},
          {"scale", scale_, constraints::positive()}};
}

Tensor StudentT::mean() const {
  return loc_.masked_fill(df_ <= 1, kUndefined);
}

Tensor StudentT::variance() const {
  const Tensor is_finite = df_ > 2;
  const Tensor df = where(is_finite, df_, 3.0);  // where it does not matter, but must divide
  const Tensor finite = where(is_finite, scale_.pow(2) * df / (df - 2), kInfinite);
  return where(df_ > 1, finite, kUndefined);
}

Tensor StudentT::rsample(const Shape& sample_shape) const {
  const Tensor x = empty(extended_shape(sample_shape), {.dtype = df_.dtype(), .device = df_.device()});
  normal_(x);
  const Tensor z = chi2_.rsample(sample_shape);
  return loc_ + scale_ * (x * rsqrt(z / df_));
}

Tensor StudentT::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor y = (value - loc_) / scale_;
  const Tensor norm =
      scale_.log() + df_.log() * 0.5 + 0.5 * std::log(std::numbers::pi) + lgamma(df_ * 0.5) - lgamma((df_ + 1.0) * 0.5);
  return (df_ + 1.0) * -0.5 * (y.pow(2.0) / df_).log1p() - norm;
}

Tensor StudentT::entropy() const {
  const Tensor half = df_ * 0.5, more = (df_ + 1) * 0.5;
  const Tensor log_beta = lgamma(half) + std::lgamma(0.5) - lgamma(more);
  return scale_.log() + more * (digamma(more) - digamma(half)) + df_.log() * 0.5 + log_beta;
}

FisherSnedecor::FisherSnedecor(const Argument& df1, const Argument& df2, const Options& options)
    : FisherSnedecor(broadcast_all({df1, df2}), options) {}

FisherSnedecor::FisherSnedecor(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(both[0].sizes(), Shape(), options.validate_args),
      df1_(both[0]),
      df2_(both[1]),
      above_(both[0] * 0.5, both[0]),
      below_(both[1] * 0.5, both[1]) {
  validate();
}

FisherSnedecor FisherSnedecor::expand(const Shape& batch_shape) const {
  FisherSnedecor result(*this);
  result.df1_ = df1_.expand(batch_shape);
  result.df2_ = df2_.expand(batch_shape);
  result.above_ = above_.expand(batch_shape);
  result.below_ = below_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> FisherSnedecor::parameters() const {
  return {{"df1", df1_, constraints::positive()}, {"df2", df2_, constraints::positive()}};
}

Tensor FisherSnedecor::mean() const {
  const Tensor df2 = df2_.masked_fill(df2_ <= 2, kUndefined);
  return df2 / (df2 - 2);
}
Tensor FisherSnedecor::mode() const {
  return ((df1_ - 2) / df1_ * df2_ / (df2_ + 2)).masked_fill(df1_ <= 2, kUndefined);
}
Tensor FisherSnedecor::variance() const {
  const Tensor df2 = df2_.masked_fill(df2_ <= 4, kUndefined);
  return df2.pow(2) * 2 * (df1_ + df2 - 2) / (df1_ * (df2 - 2).pow(2) * (df2 - 4));
}

Tensor FisherSnedecor::rsample(const Shape& sample_shape) const {
  const Tensor above = above_.rsample(sample_shape), below = below_.rsample(sample_shape);
  const double tiny = finfo(below.dtype()).tiny;
  return (above / below.clamp(tiny)).clamp(tiny);
}

Tensor FisherSnedecor::log_prob(const Tensor& value) const {
  check_sample(value);
  const Tensor half1 = df1_ * 0.5, half2 = df2_ * 0.5, ratio = df1_ / df2_;
  const Tensor norm = lgamma(half1 + half2) - lgamma(half1) - lgamma(half2);
  const Tensor power = half1 * ratio.log() + (half1 - 1) * value.log();
  return norm + power - (half1 + half2) * (ratio * value).log1p();
}

InverseGamma::InverseGamma(const Argument& concentration, const Argument& rate, const Options& options)
    : InverseGamma(Gamma(concentration, rate, options), options) {}

InverseGamma::InverseGamma(const Gamma& base, const Options& options)
    : DistributionOf(base, PowerTransform(minus_one(base.rate())), options) {
  validate();
}

InverseGamma InverseGamma::expand(const Shape& batch_shape) const {
  InverseGamma result(*this);
  result.repeat_to(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> InverseGamma::parameters() const {
  return {{"concentration", concentration(), constraints::positive(), false},
          {"rate", rate(), constraints::positive(), false}};
}

Tensor InverseGamma::mean() const {
  return where(concentration() > 1, rate() / (concentration() - 1), kInfinite);
}
Tensor InverseGamma::mode() const {
  return rate() / (concentration() + 1);
}
Tensor InverseGamma::variance() const {
  const Tensor finite = rate().square() / ((concentration() - 1).square() * (concentration() - 2));
  return where(concentration() > 2, finite, kInfinite);
}

Tensor InverseGamma::entropy() const {
  const Tensor& a = concentration();
  return a + rate().log() + lgamma(a) - (a + 1) * digamma(a);
}

}  // namespace core::distributions

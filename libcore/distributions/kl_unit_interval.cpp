// Divergences of ContinuousBernoulli.
#include <cmath>
#include <numbers>

#include "libcore/distributions/continuous.h"
#include "libcore/distributions/extreme_values.h"
#include "libcore/distributions/gamma.h"
#include "libcore/distributions/kl_table.h"
#include "libcore/distributions/unit_interval.h"
#include "libcore/ops/operators.h"

namespace core::distributions {
namespace {

using Continuous = ContinuousBernoulli;

/// The mean of the logarithm of q's density, for a p of that mean.
Tensor mean_log_prob(const Tensor& mean, const Continuous& q) {
  return mean * q.logits() + (-q.probs()).log1p() + q.log_norm();
}

Tensor unit_kl(const Continuous& p, const Continuous& q) {
  return p.mean() * (p.logits() - q.logits()) + p.log_norm() + (-p.probs()).log1p() - q.log_norm() -
         (-q.probs()).log1p();
}

Tensor unit_kl(const Beta& p, const Continuous& q) {
  return -p.entropy() - mean_log_prob(p.mean(), q);
}

Tensor unit_kl(const Continuous& p, const Exponential& q) {
  return -p.entropy() - q.rate().log() + q.rate() * p.mean();
}

Tensor unit_kl(const Continuous& p, const Normal& q) {
  const Tensor mean = p.mean(), var = square(q.scale());
  const Tensor norm = (square(q.loc() / q.scale()) + std::log(2 * std::numbers::pi)) * 0.5 + q.scale().log();
  return -p.entropy() + norm + (p.variance() + square(mean) - q.loc() * mean * 2.0) / (var * 2.0);
}

/// Infinite also where q is as wide as p: PyTorch compares so.
Tensor unit_kl(const Continuous& p, const Uniform& q) {
  return infinite_if((q.low() >= 0.0) | (q.high() <= 1.0), -p.entropy() + (q.high() - q.low()).log());
}

Tensor unit_kl(const Uniform& p, const Continuous& q) {
  return infinite_if((p.high() >= 1.0) | (p.low() <= 0.0), -p.entropy() - mean_log_prob(p.mean(), q));
}

}  // namespace

void add_unit_interval(KlTable& table) {
  add_pair<Continuous, Continuous>(table, unit_kl);
  add_pair<Beta, Continuous>(table, unit_kl);
  add_pair<Continuous, Exponential>(table, unit_kl);
  add_pair<Continuous, Normal>(table, unit_kl);
  add_pair<Continuous, Uniform>(table, unit_kl);
  add_pair<Uniform, Continuous>(table, unit_kl);
  add_infinite<Continuous, Pareto>(table);
  add_infinite<Exponential, Continuous>(table);
  add_infinite<Gamma, Continuous>(table);
  add_infinite<Laplace, Continuous>(table);
  add_infinite<Normal, Continuous>(table);
}

}  // namespace core::distributions

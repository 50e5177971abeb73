// Divergences of Gumbel, Pareto and Cauchy.
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

constexpr double kGamma = std::numbers::egamma;
const double kRootOfTurn = std::sqrt(2 * std::numbers::pi);

Tensor divergence(const Cauchy& p, const Cauchy& q) {
  const Tensor apart = (p.scale() + q.scale()).pow(2) + (p.loc() - q.loc()).pow(2);
  return apart.log() - (p.scale() * q.scale() * 4).log();
}

Tensor divergence(const Gumbel& p, const Gumbel& q) {
  const Tensor ratio = p.scale() / q.scale(), p_loc = p.loc() / q.scale(), q_loc = q.loc() / q.scale();
  return -ratio.log() - q_loc + p_loc + ratio * kGamma + (q_loc + (ratio + 1).lgamma() - p_loc).exp() - (1 + kGamma);
}

Tensor divergence(const Pareto& p, const Pareto& q) {
  const Tensor ratio = q.alpha() / p.alpha();
  const Tensor value = q.alpha() * (p.scale() / q.scale()).log() - ratio.log() + ratio - 1;
  return infinite_if(p.scale() < q.scale(), value);
}

Tensor divergence(const Exponential& p, const Gumbel& q) {
  const Tensor product = p.rate() * q.scale(), loc = q.loc() / q.scale();
  return product.log() - 1 - loc + loc.exp() * product / (product + 1) + product.reciprocal();
}

Tensor divergence(const Gamma& p, const Gumbel& q) {
  const Tensor product = p.rate() * q.scale(), loc = q.loc() / q.scale();
  const Tensor& a = p.concentration();
  const Tensor entropy = (a - 1) * a.digamma() - a.lgamma() - a;
  const Tensor norm = product.log() + a / product;
  return entropy + norm + loc.exp() * (product.reciprocal() + 1).pow(-a) - loc;
}

Tensor divergence(const Gumbel& p, const Normal& q) {
  const Tensor ratio = p.scale() / q.scale();
  const Tensor spread = (ratio * (std::numbers::pi * 0.5)).pow(2) / 3;
  const Tensor apart = ((p.loc() + p.scale() * kGamma - q.loc()) / q.scale()).pow(2) * 0.5;
  return -(ratio / kRootOfTurn).log() + spread + apart - (kGamma + 1);
}

Tensor divergence(const Normal& p, const Gumbel& q) {
  const Tensor p_loc = p.loc() / q.scale(), q_loc = q.loc() / q.scale(), ratio = (p.scale() / q.scale()).pow(2);
  const Tensor mean = (-p_loc + ratio * 0.5 + q_loc).exp();
  return -ratio.log() * 0.5 + (p_loc - q_loc) + mean - 0.5 * (1 + std::log(2 * std::numbers::pi));
}

Tensor divergence(const Pareto& p, const Exponential& q) {
  const Tensor product = p.scale() * q.rate();
  const Tensor value = (p.alpha() / product).log() - p.alpha().reciprocal() + p.alpha() * product / (p.alpha() - 1) - 1;
  return infinite_if(p.alpha() <= 1, value);
}

Tensor divergence(const Pareto& p, const Gamma& q) {
  const Tensor& a = q.concentration();
  const Tensor common = p.scale().log() + p.alpha().reciprocal();
  const Tensor norm = a.lgamma() - a * q.rate().log();
  const Tensor mean = q.rate() * p.alpha() * p.scale() / (p.alpha() - 1);
  return infinite_if(p.alpha() <= 1, p.alpha().log() - common + norm + (1 - a) * common + mean - 1);
}

Tensor divergence(const Pareto& p, const Normal& q) {
  const Tensor& a = p.alpha();
  const Tensor common = p.scale() / (a - 1);
  const Tensor norm = (q.scale() * a / p.scale() * kRootOfTurn).log() - a.reciprocal();
  const Tensor moments = a * common.pow(2) / (a - 2) + (a * common - q.loc()).pow(2);
  return infinite_if(a <= 2, norm + moments / (q.scale().pow(2) * 2) - 1);
}

Tensor divergence(const Uniform& p, const Gumbel& q) {
  const Tensor width = q.scale() / (p.high() - p.low());
  const Tensor high = (p.high() - q.loc()) / q.scale(), low = (p.low() - q.loc()) / q.scale();
  return width.log() + (high + low) * 0.5 - width * ((-high).exp() - (-low).exp());
}

Tensor divergence(const Uniform& p, const Pareto& q) {
  const Tensor width = p.high() - p.low();
  const Tensor norm = (q.alpha() * q.scale().pow(q.alpha()) * width).log();
  const Tensor mean_log = (x_log_x(p.high()) - x_log_x(p.low()) - width) / width;
  return infinite_if(p.low() < q.scale(), mean_log * (q.alpha() + 1) - norm);
}

}  // namespace

void add_extreme_values(KlTable& table) {
  add_pair<Cauchy, Cauchy>(table, divergence);
  add_pair<Gumbel, Gumbel>(table, divergence);
  add_pair<Gumbel, Normal>(table, divergence);
  add_infinite<Gumbel, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform>(table);
  add_pair<Exponential, Gumbel>(table, divergence);
  add_pair<Gamma, Gumbel>(table, divergence);
  add_pair<Normal, Gumbel>(table, divergence);
  add_pair<Uniform, Gumbel>(table, divergence);
  add_pair<Pareto, Pareto>(table, divergence);
  add_pair<Pareto, Exponential>(table, divergence);
  add_pair<Pareto, Gamma>(table, divergence);
  add_pair<Pareto, Normal>(table, divergence);
  add_pair<Uniform, Pareto>(table, divergence);
  add_infinite<Pareto, Beta, ContinuousBernoulli, Uniform>(table);
  add_infinite<Beta, Pareto>(table);
  add_infinite<Exponential, Pareto>(table);
  add_infinite<Gamma, Pareto>(table);
  add_infinite<Laplace, Pareto>(table);
  add_infinite<Normal, Pareto>(table);
}

}  // namespace core::distributions

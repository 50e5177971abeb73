#include "libcore/distributions/kl.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <optional>
#include <typeinfo>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/distributions/categorical.h"
#include "libcore/distributions/continuous.h"
#include "libcore/distributions/discrete.h"
#include "libcore/distributions/exponential_family.h"
#include "libcore/distributions/folded.h"
#include "libcore/distributions/gamma.h"
#include "libcore/distributions/kl_table.h"
#include "libcore/distributions/multivariate_normal.h"
#include "libcore/distributions/transformed.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {
namespace {

constexpr double kPi = std::numbers::pi, kEuler = std::numbers::egamma;

[[noreturn]] void throw_not_implemented(const std::string& message) {
  throw Error(ErrorCode::not_implemented, message);
}

// --- of one kind

Tensor kl(const Bernoulli& p, const Bernoulli& q) {
  const Tensor a = p.probs(), b = q.probs(), p_logits = p.logits(), q_logits = q.logits();
  const Tensor yes = a * (softplus(-q_logits) - softplus(-p_logits));
  const Tensor no = (1 - a) * (softplus(q_logits) - softplus(p_logits));
  return where(eq(a, 0), 0.0, infinite_if(eq(b, 0), yes)) + where(eq(a, 1), 0.0, infinite_if(eq(b, 1), no));
}

Tensor kl(const Beta& p, const Beta& q) {
  const Tensor p1 = p.concentration1(), p0 = p.concentration0(), q1 = q.concentration1(), q0 = q.concentration0();
  const Tensor p_sum = p1 + p0, q_sum = q1 + q0;
  const Tensor first = q1.lgamma() + q0.lgamma() + p_sum.lgamma();
  const Tensor second = p1.lgamma() + p0.lgamma() + q_sum.lgamma();
  return first - second + (p1 - q1) * p1.digamma() + (p0 - q0) * p0.digamma() + (q_sum - p_sum) * p_sum.digamma();
}

Tensor kl(const Binomial& p, const Binomial& q) {
  if ((p.total_count() < q.total_count()).any().item<bool>()) {
    throw_not_implemented("KL between Binomials where q.total_count > p.total_count is not implemented");
  }
  const Tensor a = p.probs(), b = q.probs();
  const Tensor value = p.total_count() * (a * (p.logits() - q.logits()) + (-a).log1p() - (-b).log1p());
  return infinite_if(p.total_count() > q.total_count(), value);
}

Tensor kl(const Categorical& p, const Categorical& q) {
  const Tensor a = p.probs(), b = q.probs();
  return where(eq(a, 0), 0.0, infinite_if(eq(b, 0), a * (p.logits() - q.logits()))).sum(-1);
}

Tensor kl(const Dirichlet& p, const Dirichlet& q) {
  const Tensor& a = p.concentration();
  const Tensor& b = q.concentration();
  const Tensor a_sum = a.sum(-1), b_sum = b.sum(-1);
  const Tensor logs = a.digamma() - a_sum.digamma().unsqueeze(-1);
  return a_sum.lgamma() - b_sum.lgamma() - (a.lgamma() - b.lgamma()).sum(-1) + ((a - b) * logs).sum(-1);
}

Tensor kl(const Exponential& p, const Exponential& q) {
  const Tensor ratio = q.rate() / p.rate();
  return ratio - ratio.log() - 1;
}

Tensor kl(const Gamma& p, const Gamma& q) {
  const Tensor &a = p.concentration(), &b = q.concentration();
  return b * (p.rate() / q.rate()).log() + (lgamma(b) - lgamma(a)) + (a - b) * digamma(a) +
         (q.rate() - p.rate()) * (a / p.rate());
}

Tensor kl(const Geometric& p, const Geometric& q) {
  return -p.entropy() - (-q.probs()).log1p() / p.probs() - q.logits();
}

Tensor kl(const Laplace& p, const Laplace& q) {
  const Tensor ratio = p.scale() / q.scale(), apart = (p.loc() - q.loc()).abs();
  return -ratio.log() + apart / q.scale() + ratio * (-apart / p.scale()).exp() - 1;
}

Tensor kl(const MultivariateNormal& p, const MultivariateNormal& q) {
  if (p.event_shape() != q.event_shape()) {
    throw Error(ErrorCode::value,
                "KL-divergence between two Multivariate Normals with                          different event shapes "
                "cannot be computed");
  }
  const Tensor &a = p.unbroadcasted_scale_tril(), &b = q.unbroadcasted_scale_tril();
  const Shape sizes = broadcast_shapes(a.sizes(), b.sizes());
  const Tensor solved = linalg::solve_triangular(b.expand(sizes), a.expand(sizes), {.upper = false});
  const Tensor trace = solved.pow(2).sum(-1).sum(-1), distance = batch_mahalanobis(b, q.loc() - p.loc());
  return half_log_det(b) - half_log_det(a) + (trace + distance - p.event_shape()[0]) * 0.5;
}

Tensor kl(const Normal& p, const Normal& q) {
  const Tensor ratio = square(p.scale() / q.scale());
  return (ratio + square((p.loc() - q.loc()) / q.scale()) - 1 - ratio.log()) * 0.5;
}

Tensor kl(const HalfNormal& p, const HalfNormal& q) {
  return kl(static_cast<const Normal&>(p.base_dist()), static_cast<const Normal&>(q.base_dist()));
}

Tensor kl(const OneHotCategorical& p, const OneHotCategorical& q) {
  return kl(p.categorical(), q.categorical());
}

Tensor kl(const Poisson& p, const Poisson& q) {
  return p.rate() * (p.rate().log() - q.rate().log()) - (p.rate() - q.rate());
}

Tensor kl(const TransformedDistribution& p, const TransformedDistribution& q) {
  if (!(p.transforms() == q.transforms())) throw_not_implemented("KL between distributions of different transforms");
  if (p.event_shape() != q.event_shape()) throw_not_implemented("KL between distributions of different event shapes");
  return kl_divergence(p.base_dist(), q.base_dist());
}

Tensor kl(const Uniform& p, const Uniform& q) {
  const Tensor value = ((q.high() - q.low()) / (p.high() - p.low())).log();
  return infinite_if((q.low() > p.low()) | (q.high() < p.high()), value);
}

Tensor kl(const Independent& p, const Independent& q) {
  if (p.reinterpreted_batch_ndims() != q.reinterpreted_batch_ndims()) {
    throw_not_implemented("KL between independent distributions of different reinterpreted_batch_ndims");
  }
  return sum_rightmost(kl_divergence(p.base_dist(), q.base_dist()), p.reinterpreted_batch_ndims());
}

// --- of two kinds

Tensor kl(const Bernoulli& p, const Poisson& q) {
  return -p.entropy() - (p.probs() * q.rate().log() - q.rate());
}

Tensor kl(const Beta& p, const Exponential& q) {
  return -p.entropy() - q.rate().log() + q.rate() * p.mean();
}

Tensor kl(const Beta& p, const Gamma& q) {
  const Tensor p1 = p.concentration1(), sum = p1 + p.concentration0();
  const Tensor norm = q.concentration().lgamma() - q.concentration() * q.rate().log();
  return -p.entropy() + norm - (q.concentration() - 1) * (p1.digamma() - sum.digamma()) + q.rate() * p1 / sum;
}

Tensor kl(const Beta& p, const Normal& q) {
  const Tensor mean = p.mean(), var = square(q.scale()), sum = p.concentration1() + p.concentration0();
  const Tensor moment = (mean * (1 - mean) / (sum + 1) + square(mean)) * 0.5;
  return -p.entropy() + (var * 2 * kPi).log() * 0.5 + (moment - q.loc() * mean + square(q.loc()) * 0.5) / var;
}

Tensor kl(const Beta& p, const Uniform& q) {
  return infinite_if((q.low() > 0.0) | (q.high() < 1.0), -p.entropy() + (q.high() - q.low()).log());
}

Tensor kl(const Exponential& p, const Gamma& q) {
  const Tensor ratio = q.rate() / p.rate();
  const Tensor& a = q.concentration();
  return -a * ratio.log() + ratio + a.lgamma() + a * kEuler - (1 + kEuler);
}

Tensor kl(const Exponential& p, const Normal& q) {
  const Tensor var = square(q.scale()), rate = square(p.rate());
  const Tensor moments = rate.reciprocal() - q.loc() / p.rate() + square(q.loc()) * 0.5;
  return (rate * var * 2 * kPi).log() * 0.5 - 1 + moments / var;
}

Tensor kl(const Gamma& p, const Exponential& q) {
  return -p.entropy() - q.rate().log() + q.rate() * p.concentration() / p.rate();
}

Tensor kl(const Gamma& p, const Normal& q) {
  const Tensor var = square(q.scale()), rate = square(p.rate());
  const Tensor& a = p.concentration();
  const Tensor norm = (rate * var * 2 * kPi).log() * 0.5 - a - a.lgamma();
  const Tensor moments = (square(a) + a) * 0.5 / rate - q.loc() * a / p.rate() + square(q.loc()) * 0.5;
  return norm + (a - 1) * a.digamma() + moments / var;
}

Tensor kl(const Laplace& p, const Normal& q) {
  const Tensor var = square(q.scale()), ratio = square(p.scale()) / var;
  const Tensor moments = square(p.loc()) * 0.5 - p.loc() * q.loc() + square(q.loc()) * 0.5;
  return -(ratio * 2 / kPi).log() * 0.5 + ratio + moments / var - 1;
}

Tensor kl(const Normal& p, const Laplace& q) {
  const Tensor apart = p.loc() - q.loc(), in_scales = apart / p.scale();
  const Tensor first = p.scale() * std::sqrt(2 / kPi) * (square(in_scales) * -0.5).exp();
  const Tensor second = apart * erf(in_scales * std::sqrt(0.5));
  return -(p.scale() / q.scale()).log() + (first + second) / q.scale() - 0.5 * (1 + std::log(0.5 * kPi));
}

Tensor kl(const Uniform& p, const Beta& q) {
  const Tensor width = p.high() - p.low(), q1 = q.concentration1(), q0 = q.concentration0();
  const Tensor first = (q1 - 1) * (x_log_x(p.high()) - x_log_x(p.low()) - width) / width;
  const Tensor second = (q0 - 1) * (x_log_x(1 - p.high()) - x_log_x(1 - p.low()) + width) / width;
  const Tensor norm = q1.lgamma() + q0.lgamma() - (q1 + q0).lgamma();
  return infinite_if((p.high() > 1.0) | (p.low() < 0.0), second + norm - width.log() - first);
}

Tensor kl(const Uniform& p, const Exponential& q) {
  const Tensor value = q.rate() * (p.high() + p.low()) / 2 - ((p.high() - p.low()) * q.rate()).log();
  return infinite_if(p.low() < 0.0, value);
}

Tensor kl(const Uniform& p, const Gamma& q) {
  const Tensor width = p.high() - p.low();
  const Tensor& a = q.concentration();
  const Tensor norm = a.lgamma() - a * q.rate().log();
  const Tensor logs = (1 - a) * (x_log_x(p.high()) - x_log_x(p.low()) - width) / width;
  return infinite_if(p.low() < 0.0, norm - width.log() + logs + q.rate() * (p.high() + p.low()) / 2);
}

Tensor kl(const Uniform& p, const Normal& q) {
  const Tensor width = p.high() - p.low(), middle = (p.high() + p.low() - q.loc() * 2) / 2;
  return (q.scale() * std::sqrt(2 * kPi) / width).log() +
         (square(width) / 12 + square(middle)) * 0.5 / square(q.scale());
}

/// The last `count` dimensions summed, or all where there are fewer, as a slice of sizes in Python does.
Tensor sum_of_last(const Tensor& x, std::size_t count) {
  return sum_rightmost(x, std::min(x.dim(), static_cast<std::int64_t>(count)));
}

/// By the gradient of p's normalizer, for families without a formula.
Tensor kl_of_families(const Distribution& p, const Distribution& q) {
  if (typeid(p) != typeid(q)) {
    throw_not_implemented(
        "The cross KL-divergence between different exponential families cannot                             be computed "
        "using Bregman divergences");
  }
  const auto& family = dynamic_cast<const ExponentialFamily&>(q);
  const NormalizerGradient at = normalizer_gradient(dynamic_cast<const ExponentialFamily&>(p));
  const std::vector<Tensor> params = family.natural_params();
  Tensor result = family.log_normalizer(params) - at.log_normalizer;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor term = (params[i] - at.params[i]) * at.gradients[i];
    result = result - sum_of_last(term, q.event_shape().size());
  }
  return result;
}

// --- the table

template <class P, class... Q>
void add(KlTable& table) {
  (add_pair<P, Q>(table, kl), ...);
}

KlTable built_in() {
  KlTable table;
  add_extreme_values(table);
  add_low_rank(table);
  add_unit_interval(table);
  add<Bernoulli, Bernoulli, Poisson>(table);
  add<Beta, Beta, Exponential, Gamma, Normal, Uniform>(table);
  add<Binomial, Binomial>(table);
  add<Categorical, Categorical>(table);
  add<Dirichlet, Dirichlet>(table);
  add<Exponential, Exponential, Gamma, Normal>(table);
  add_infinite<Exponential, Beta, Uniform>(table);
  add<Gamma, Gamma, Exponential, Normal>(table);
  add_infinite<Gamma, Beta, Uniform>(table);
  add<Geometric, Geometric>(table);
  add<HalfNormal, HalfNormal>(table);
  add<Independent, Independent>(table);
  add<Laplace, Laplace, Normal>(table);
  add_infinite<Laplace, Beta, Exponential, Gamma, Uniform>(table);
  add<MultivariateNormal, MultivariateNormal>(table);
  add<Normal, Normal, Laplace>(table);
  add_infinite<Normal, Beta, Exponential, Gamma, Uniform>(table);
  add<OneHotCategorical, OneHotCategorical>(table);
  add<Poisson, Poisson>(table);
  add_infinite<Poisson, Bernoulli, Binomial>(table);
  add<TransformedDistribution, TransformedDistribution>(table);
  add<Uniform, Uniform, Beta, Exponential, Gamma, Normal>(table);
  table.push_back({detail::are<ExponentialFamily, ExponentialFamily>, kl_of_families});
  return table;
}

struct Registered {
  std::mutex mutex;
  KlTable entries;
};
Registered& registered() {
  static Registered all;
  return all;
}

std::optional<detail::KlFunction> registered_for(const Distribution& p, const Distribution& q) {
  Registered& all = registered();
  const std::scoped_lock lock(all.mutex);
  for (std::size_t i = all.entries.size(); i > 0; --i) {
    if (all.entries[i - 1].fits(p, q)) return all.entries[i - 1].function;
  }
  return std::nullopt;
}

}  // namespace

Tensor infinite_kl(const Distribution& p, const Distribution&) {
  return full_like(p.parameters().at(0).value, std::numeric_limits<double>::infinity());
}

void detail::register_kl(KlFits fits, KlFunction function) {
  Registered& all = registered();
  const std::scoped_lock lock(all.mutex);
  all.entries.push_back({fits, std::move(function)});
}

Tensor kl_divergence(const Distribution& p, const Distribution& q) {
  if (const auto function = registered_for(p, q)) return (*function)(p, q);
  static const KlTable kBuiltIn = built_in();
  for (const KlEntry& entry : kBuiltIn) {
    if (entry.fits(p, q)) return entry.function(p, q);
  }
  throw_not_implemented("No KL(p || q) is implemented for p type " + p.class_name() + " and q type " + q.class_name());
}

}  // namespace core::distributions

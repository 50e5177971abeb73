#include "libcore/tensor/random_draws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/backend/random_stream.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/random_gradients.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using detail::RandomStream;

double uniform(RandomStream& stream) {
  return detail::uniform64(stream.engine);
}

/// The source of a call: the generator given, or the CPU's.
RandomStream& stream_of(const std::optional<Generator>& given) {
  detail::note_random_draw();
  if (!given) return default_generator().stream();
  if (given->device().is_cpu()) return given->stream();
  throw Error(ErrorCode::runtime, "Expected a 'cpu' device type for generator but found '" +
                                      std::string(name(given->device().type())) + "'");
}

void check_dtype(const Tensor& x, const char* kernel) {
  if (x.dtype() == DType::f32 || x.dtype() == DType::f64) return;
  throw Error(ErrorCode::not_implemented,
              std::string("\"") + kernel + "\" not implemented for '" + scalar_type_name(x.dtype()) + "'");
}

/// function(parameters of an element..., stream) for each, in order.
template <class T, class F>
Tensor drawn(RandomStream& stream, const std::vector<Tensor>& parameters, F function) {
  std::vector<std::vector<T>> values;
  for (const Tensor& p : parameters) values.push_back(p.detach().template to_vector<T>());
  std::vector<T> result(values[0].size());
  {
    const std::scoped_lock lock(stream.mutex);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = function(values, i);
  }
  return from_values(std::span<const T>(result), parameters[0].sizes(), {.device = parameters[0].device()});
}

/// Counts of a large rate: transformed rejection, Hoermann 1993.
double large_poisson(double rate, RandomStream& stream) {
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = uniform(stream) - 0.5, v = uniform(stream), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double left = std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b);
    if (left <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

double one_poisson(double rate, RandomStream& stream) {
  if (!(rate >= 0)) throw Error(ErrorCode::runtime, "invalid Poisson rate, expected rate to be non-negative");
  if (rate >= 10) return large_poisson(rate, stream);
  if (rate == 0) return 0;
  const double end = std::exp(-rate);
  double product = uniform(stream);
  double count = 0;
  for (; product > end; product *= uniform(stream)) ++count;
  return count;
}

/// log(k!) minus Stirling's formula for it.
double stirling_tail(double k) {
  constexpr std::array kFirst{0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                              0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                              0.00925546218271273, 0.00833056343336287};
  if (k < static_cast<double>(kFirst.size())) return kFirst[static_cast<std::size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/// Waits for each success. T: what PyTorch rounds to on the way.
template <class T>
T few_successes(T count, T prob, RandomStream& stream) {
  const double log_miss = std::log1p(-prob);
  double tries = 0;
  for (T successes = 0;; ++successes) {
    tries += std::ceil(std::log(uniform(stream)) / log_miss);
    if (tries > count) return successes;
  }
}

/// Transformed rejection, Hoermann's BTRS.
template <class T>
T many_successes(T count, T prob, RandomStream& stream) {
  const double deviation = std::sqrt(count * prob * (1 - prob));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * prob;
  const double c = count * prob + 0.5, v_r = 0.92 - 4.2 / b, r = prob / (1 - prob);
  const double alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((count + 1) * prob);
  while (true) {
    const double u = uniform(stream) - 0.5, us = 0.5 - std::abs(u);
    double v = uniform(stream);
    const T k = static_cast<T>(std::floor((2 * a / us + b) * u + c));
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= v_r) return k;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

template <class T>
T successes(T count, T prob, RandomStream& stream) {
  return count * prob >= 10.0 ? many_successes(count, prob, stream) : few_successes(count, prob, stream);
}

template <class T>
T one_binomial(T count, T prob, RandomStream& stream) {
  if (count <= 0 || prob <= 0) return 0;
  if (prob >= 1) return count;
  if (std::isnan(prob)) return prob;
  if (prob <= 0.5) return successes(count, prob, stream);
  return count - successes(count, static_cast<T>(1.0 - prob), stream);
}

/// Marsaglia and Tsang 2000.
template <class T>
T one_gamma(T alpha, RandomStream& stream) {
  if (alpha == 0 || std::isnan(alpha)) return alpha;
  double scale = 1;
  if (alpha < 1) {
    scale = std::pow(1 - uniform(stream), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - 1.0F / 3.0F, c = 1 / std::sqrt(9 * d);
  while (true) {
    double x = detail::normal64(stream), y = 1 + c * x;
    while (y <= 0) x = detail::normal64(stream), y = 1 + c * x;
    const double v = y * y * y, u = 1 - uniform(stream), square = x * x;
    const bool inside = u < 1 - 0.0331F * square * square;
    if (inside || std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return static_cast<T>(scale * d * v);
  }
}

template <class T>
Tensor draw_gamma(const Tensor& alpha, RandomStream& stream) {
  return drawn<T>(stream, {alpha}, [&](const auto& p, std::size_t i) {
    return std::max(std::numeric_limits<T>::min(), one_gamma(p[0][i], stream));
  });
}

template <class T>
Tensor draw_binomial(const Tensor& count, const Tensor& prob, RandomStream& stream) {
  return drawn<T>(stream, {count, prob},
                  [&](const auto& p, std::size_t i) { return one_binomial(p[0][i], p[1][i], stream); });
}

template <class T>
Tensor draw_poisson(const Tensor& rate, RandomStream& stream) {
  return drawn<T>(stream, {rate}, [&](const auto& p, std::size_t i) {
    return static_cast<T>(one_poisson(static_cast<double>(p[0][i]), stream));
  });
}

/// Draws in f64, so that none is 0, kept inside of (0, 1).
template <class T>
Tensor draw_dirichlet(const Tensor& alpha, RandomStream& stream) {
  const Tensor draws = draw_gamma<double>(alpha.detach().to(DType::f64), stream);
  const Tensor parts = draws / draws.sum(-1, true);
  std::vector<T> values = parts.to_vector<T>();
  for (T& value : values) value = std::clamp(value, std::numeric_limits<T>::min(), std::nexttoward(T{1}, 0.0L));
  return from_values(std::span<const T>(values), alpha.sizes(), {.device = alpha.device()});
}

struct StandardGammaBackward final : Node {
  std::string_view name() const override { return "StandardGammaBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor alpha = saved(0), draw = saved(1);
    return {g[0] * detail::host_binary<double>(alpha, draw, alpha.dtype(), detail::standard_gamma_grad)};
  }
};

struct DirichletBackward final : Node {
  std::string_view name() const override { return "_DirichletBackward"; }
  TensorList apply(TensorList g) override {
    const Tensor alpha = saved(0).detach(), x = saved(1).detach();
    const std::vector<double> totals = alpha.sum(-1, true).expand(alpha.sizes()).to_vector<double>();
    std::size_t at = 0;
    const Tensor by_alpha = detail::host_binary<double>(
        x, alpha, x.dtype(), [&](double value, double a) { return detail::dirichlet_grad(value, a, totals[at++]); });
    return {by_alpha * (g[0] - (x * g[0]).sum(-1, true))};
  }
};

template <class N>
Tensor with_history(const Tensor& concentration, Tensor out) {
  if (!needs_grad(concentration)) return out;
  auto node = make_node<N>(concentration);
  node->save(concentration);
  record(out, node);
  node->save_output(out);
  return out;
}

}  // namespace

Tensor poisson(const Tensor& rate, const std::optional<Generator>& generator) {
  check_dtype(rate, "poisson_cpu");
  RandomStream& stream = stream_of(generator);
  return rate.dtype() == DType::f64 ? draw_poisson<double>(rate, stream) : draw_poisson<float>(rate, stream);
}

Tensor binomial(const Tensor& count, const Tensor& prob, const std::optional<Generator>& generator) {
  check_dtype(count, "binomial_cpu");
  if (count.dtype() != prob.dtype()) {
    throw Error(ErrorCode::runtime, std::string("Found dtype ") + scalar_type_name(prob.dtype()) + " but expected " +
                                        scalar_type_name(count.dtype()));
  }
  const Shape sizes = broadcast_shapes(count.sizes(), prob.sizes());
  const Tensor n = count.expand(sizes), p = prob.expand(sizes);
  RandomStream& stream = stream_of(generator);
  return count.dtype() == DType::f64 ? draw_binomial<double>(n, p, stream) : draw_binomial<float>(n, p, stream);
}

Tensor standard_gamma(const Tensor& concentration, const std::optional<Generator>& generator) {
  check_dtype(concentration, "gamma_cpu");
  RandomStream& stream = stream_of(generator);
  const bool is_wide = concentration.dtype() == DType::f64;
  const Tensor draws = is_wide ? draw_gamma<double>(concentration, stream) : draw_gamma<float>(concentration, stream);
  return with_history<StandardGammaBackward>(concentration, draws);
}

Tensor sample_dirichlet(const Tensor& concentration, const std::optional<Generator>& generator) {
  check_dtype(concentration, "dirichlet");
  RandomStream& stream = stream_of(generator);
  const bool is_wide = concentration.dtype() == DType::f64;
  const Tensor draws =
      is_wide ? draw_dirichlet<double>(concentration, stream) : draw_dirichlet<float>(concentration, stream);
  return with_history<DirichletBackward>(concentration, draws);
}

}  // namespace core

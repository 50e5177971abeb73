#include "libcore/optim/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/host_array.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::check_option;

OptionMap checked_defaults(const AdafactorOptions& o) {
  check_option(o.lr.to_double() >= 0, "Learning rate should be >= 0 but is", o.lr);
  check_option(o.beta2_decay.to_double() <= 0, "beta2_decay should be <= 0 but is", o.beta2_decay);
  if (o.eps.first) check_option(o.eps.first->to_double() >= 0, "epsilon1 should be >= 0 but is", *o.eps.first);
  check_option(o.eps.second.to_double() >= 0, "epsilon2 should be >= 0 but is", o.eps.second);
  check_option(o.d.to_double() >= 1, "Clipping threshold d should be >= 1 but is", o.d);
  check_option(o.weight_decay.to_double() >= 0, "weight_decay should be >= 0 but is", o.weight_decay);
  OptionValue eps = std::vector<std::optional<Scalar>>{o.eps.first, o.eps.second};
  if (o.eps.first) eps = std::vector<Scalar>{*o.eps.first, o.eps.second};
  return {{"lr", o.lr},    {"beta2_decay", o.beta2_decay},  {"eps", eps}, {"d", o.d}, {"weight_decay", o.weight_decay},
          {"foreach", {}}, {"maximize", Scalar(o.maximize)}};
}

struct AdafactorStep {
  double lr, beta2_decay, eps1, eps2, d, weight_decay;
};

double eps_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0.0009765625;
    case DType::bf16:
      return 0.0078125;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

AdafactorStep adafactor_step(const OptionMap& o, DType dtype) {
  AdafactorStep how{o.number("lr"), o.number("beta2_decay"), eps_of(dtype), 0, o.number("d"), o.number("weight_decay")};
  if (const auto* some = std::get_if<std::vector<std::optional<Scalar>>>(&o.at("eps"))) {
    if ((*some)[0]) how.eps1 = (*some)[0]->to_double();
    how.eps2 = (*some)[1]->to_double();
  } else {
    const std::vector<double> eps = o.numbers("eps");
    how.eps1 = eps[0], how.eps2 = eps[1];
  }
  return how;
}

double length(const Tensor& x) {
  return norm(x).item<double>();
}

/// The mean of the squares along `dim`, as a moving average.
Tensor factor(ParamState& state, const char* name, const Tensor& grad, std::int64_t dim, double weight) {
  Tensor moment = detail::find_state(state, name);
  if (!moment.defined()) {
    Shape sizes = grad.sizes();
    sizes[static_cast<std::size_t>(grad.dim() + dim)] = 1;
    moment = zeros(sizes, {.dtype = grad.dtype(), .device = grad.device()});
    state.emplace_back(name, moment);
  }
  const Tensor root = norm(grad, {.dims = {dim}, .keepdim = true});
  moment.lerp_(root * root / grad.size(dim), weight);
  return moment;
}

/// An estimate of the squared gradient, once `state` has seen this one.
Tensor second_moment(const Tensor& grad, ParamState& state, double weight, double eps1) {
  if (grad.dim() < 2) {
    const Tensor variance = detail::state_tensor(state, "variance", grad);
    variance.lerp_(grad * grad, weight);
    return variance.clone();
  }
  const Tensor rows = factor(state, "row_var", grad, -1, weight), columns = factor(state, "col_var", grad, -2, weight);
  return matmul(rows, columns) / clamp(rows.mean(Shape{-2}, true), Scalar(eps1));
}

void update_adafactor(const Tensor& param, const Tensor& grad, ParamState& state, const AdafactorStep& how) {
  const double step = detail::count_step(state);
  const double rate = std::min(how.lr, 1 / std::sqrt(step));
  const auto root_of_count = std::sqrt(static_cast<double>(param.numel()));
  const double alpha = std::max(how.eps2, length(param) / root_of_count) * rate;
  if (how.weight_decay != 0) param.mul_(1 - how.lr * how.weight_decay);
  const Tensor moment = second_moment(grad, state, std::pow(step, how.beta2_decay), how.eps1);
  const Tensor change = rsqrt(clamp(moment, Scalar(how.eps1 * how.eps1))) * grad;
  const double clip = std::max(1.0, length(change) / (root_of_count * how.d));
  param.add_(change, -alpha / clip);
}

}  // namespace

Adafactor::Adafactor(std::vector<ParamGroup> groups, const AdafactorOptions& options)
    : Optimizer("Adafactor", std::move(groups), checked_defaults(options)) {}

void Adafactor::update(const ParamGroup& group) {
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    const AdafactorStep how = adafactor_step(group.options, param.dtype());
    update_adafactor(param.detach(), group.options.flag("maximize") ? -grad : grad, state, how);
  });
}

}  // namespace core

// The rarer optimizers, statement by statement as the formulas are written, in operations on tensors.
#include "libcore/optim/averaging.h"

#include <algorithm>
#include <cmath>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/host_array.h"
#include "libcore/optim/step_lists.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::check_option;

using Pair = std::pair<Scalar, Scalar>;

std::vector<Scalar> tuple(const Pair& pair) {
  return {pair.first, pair.second};
}

std::pair<double, double> numbers(const OptionMap& options, std::string_view name) {
  const auto& values = std::get<std::vector<Scalar>>(options.at(name));
  return {values[0].to_double(), values[1].to_double()};
}

void check_betas(const Pair& betas) {
  const auto fits = [](const Scalar& beta) { return beta.to_double() >= 0 && beta.to_double() < 1; };
  check_option(fits(betas.first), "Invalid beta parameter at index 0", betas.first);
  check_option(fits(betas.second), "Invalid beta parameter at index 1", betas.second);
}

template <class Options>
void check_common(const Options& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  check_option(o.eps.to_double() >= 0, "Invalid epsilon value", o.eps);
  check_betas(o.betas);
  check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
}

OptionMap checked_defaults(const AdamaxOptions& o) {
  check_common(o);
  return {{"lr", o.lr},
          {"betas", tuple(o.betas)},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"foreach", {}},
          {"maximize", Scalar(o.maximize)},
          {"differentiable", Scalar(false)},
          {"capturable", Scalar(false)}};
}

OptionMap checked_defaults(const NAdamOptions& o) {
  check_common(o);
  check_option(o.momentum_decay.to_double() >= 0, "Invalid momentum_decay value", o.momentum_decay);
  return {{"lr", o.lr},
          {"betas", tuple(o.betas)},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"momentum_decay", o.momentum_decay},
          {"decoupled_weight_decay", Scalar(o.decoupled_weight_decay)},
          {"maximize", Scalar(o.maximize)},
          {"foreach", {}},
          {"capturable", Scalar(false)},
          {"differentiable", Scalar(false)}};
}

OptionMap checked_defaults(const RAdamOptions& o) {
  check_common(o);
  return {{"lr", o.lr},
          {"betas", tuple(o.betas)},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"maximize", Scalar(o.maximize)},
          {"foreach", {}},
          {"capturable", Scalar(false)},
          {"decoupled_weight_decay", Scalar(o.decoupled_weight_decay)},
          {"differentiable", Scalar(false)}};
}

OptionMap checked_defaults(const ASGDOptions& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  return {{"lr", o.lr},
          {"lambd", o.lambd},
          {"alpha", o.alpha},
          {"t0", o.t0},
          {"weight_decay", o.weight_decay},
          {"foreach", {}},
          {"maximize", Scalar(o.maximize)},
          {"differentiable", Scalar(false)},
          {"capturable", Scalar(false)}};
}

OptionMap checked_defaults(const RpropOptions& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  const double minus = o.etas.first.to_double(), plus = o.etas.second.to_double();
  if (!(minus > 0 && minus < 1 && plus > 1)) {
    throw Error(ErrorCode::value, "Invalid eta values: " + to_string(OptionValue(o.etas.first)) + ", " +
                                      to_string(OptionValue(o.etas.second)));
  }
  return {{"lr", o.lr},
          {"etas", tuple(o.etas)},
          {"step_sizes", tuple(o.step_sizes)},
          {"foreach", {}},
          {"maximize", Scalar(o.maximize)},
          {"differentiable", Scalar(false)},
          {"capturable", Scalar(false)}};
}

Tensor signed_grad(const Tensor& grad, const OptionMap& options) {
  return options.flag("maximize") ? -grad.detach() : grad.detach();
}

/// The gradient with weight decay, unless that shrinks the parameter itself.
Tensor decayed(const Tensor& param, const Tensor& grad, const OptionMap& options) {
  const Tensor g = signed_grad(grad, options);
  const double decay = options.number("weight_decay");
  if (decay == 0) return g;
  if (!options.contains("decoupled_weight_decay") || !options.flag("decoupled_weight_decay")) {
    return g.add(param, decay);
  }
  param.mul_(1 - options.number("lr") * decay);
  return g;
}

bool is_decoupled(const OptionMap& o) {
  return o.contains("decoupled_weight_decay") && o.flag("decoupled_weight_decay");
}

/// A 0-dim f32 tensor of the state, made with `start` when it is not there.
Tensor number_state(ParamState& state, const char* name, double start) {
  const Tensor found = detail::find_state(state, name);
  if (found.defined()) return found;
  const Tensor made = full({}, start, {.dtype = DType::f32});
  state.emplace_back(name, made);
  return made;
}

}  // namespace

Adamax::Adamax(std::vector<ParamGroup> groups, const AdamaxOptions& options)
    : Optimizer("Adamax", std::move(groups), checked_defaults(options)) {}

void Adamax::update(const ParamGroup& group) {
  const NoGradGuard no_history;
  const OptionMap& o = group.options;
  const auto [beta1, beta2] = numbers(o, "betas");
  detail::AdaptiveSteps steps(&OptimizerTable::adamax);
  each_gradient(group, [&, b1 = beta1, b2 = beta2](const Tensor& given, const Tensor& grad, ParamState& state) {
    const double rate = o.number("lr") / (1 - std::pow(b1, detail::count_step(state)));
    const Tensor param = given.detach();
    const Tensor exp_avg = detail::state_tensor(state, "exp_avg", param);
    const Tensor exp_inf = detail::state_tensor(state, "exp_inf", param);
    if (steps.take(param, grad, {exp_avg, exp_inf}, {rate})) return;
    const Tensor g = decayed(param, grad, o);
    exp_avg.lerp_(g, 1 - b1);
    exp_inf.copy_(maximum(exp_inf.mul_(b2), abs(g).add_(o.number("eps"))));
    param.addcdiv_(exp_avg, exp_inf, -rate);
  });
  steps.run({detail::common_of(o), {beta1, beta2, o.number("eps")}});
}

NAdam::NAdam(std::vector<ParamGroup> groups, const NAdamOptions& options)
    : Optimizer("NAdam", std::move(groups), checked_defaults(options)) {}

void NAdam::update(const ParamGroup& group) {
  const NoGradGuard no_history;
  const OptionMap& o = group.options;
  const auto [beta1, beta2] = numbers(o, "betas");
  detail::AdaptiveSteps steps(&OptimizerTable::nadam);
  each_gradient(group, [&, b1 = beta1, b2 = beta2](const Tensor& given, const Tensor& grad, ParamState& state) {
    const double step = detail::count_step(state), lr = o.number("lr"), decay = o.number("momentum_decay");
    const Tensor param = given.detach();
    const Tensor product = number_state(state, "mu_product", 1);
    const Tensor exp_avg = detail::state_tensor(state, "exp_avg", param);
    const Tensor exp_avg_sq = detail::state_tensor(state, "exp_avg_sq", param);
    const double mu = b1 * (1 - 0.5 * std::pow(0.96, step * decay));
    const double mu_next = b1 * (1 - 0.5 * std::pow(0.96, (step + 1) * decay));
    product.mul_(mu);
    const double so_far = product.item<double>(), correction2 = 1 - std::pow(b2, step);
    const double of_grad = -lr * (1 - mu) / (1 - so_far), of_mean = (-lr * mu_next) / (1 - so_far * mu_next);
    if (steps.take(param, grad, {exp_avg, exp_avg_sq}, {of_grad, of_mean, correction2})) return;
    const Tensor g = decayed(param, grad, o);
    exp_avg.lerp_(g, 1 - b1);
    exp_avg_sq.mul_(b2).addcmul_(g, g, 1 - b2);
    const Tensor denominator = sqrt(exp_avg_sq.div(correction2)).add_(o.number("eps"));
    param.addcdiv_(g, denominator, of_grad);
    param.addcdiv_(exp_avg, denominator, of_mean);
  });
  steps.run({detail::common_of(o), {beta1, beta2, o.number("eps")}, is_decoupled(o)});
}

RAdam::RAdam(std::vector<ParamGroup> groups, const RAdamOptions& options)
    : Optimizer("RAdam", std::move(groups), checked_defaults(options)) {}

namespace {

/// What the number of steps makes of RAdam's options: the corrections of both moments, and the rectification, 0 as long
/// as the variance is unknown.
struct Rectified {
  double correction1, correction2, factor;

  Rectified(double step, double beta1, double beta2)
      : correction1(1 - std::pow(beta1, step)), correction2(1 - std::pow(beta2, step)) {
    const double most = 2 / (1 - beta2) - 1;
    const double rho = most - 2 * step * std::pow(beta2, step) / correction2;
    factor = rho <= 5 ? 0 : std::pow((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho), 0.5);
  }
};

}  // namespace

void RAdam::update(const ParamGroup& group) {
  const NoGradGuard no_history;
  const OptionMap& o = group.options;
  const auto [beta1, beta2] = numbers(o, "betas");
  const double lr = o.number("lr"), eps = o.number("eps");
  detail::AdaptiveSteps steps(&OptimizerTable::radam);
  each_gradient(group, [&, b1 = beta1, b2 = beta2](const Tensor& given, const Tensor& grad, ParamState& state) {
    const Rectified now(detail::count_step(state), b1, b2);
    const Tensor param = given.detach();
    const Tensor exp_avg = detail::state_tensor(state, "exp_avg", param);
    const Tensor exp_avg_sq = detail::state_tensor(state, "exp_avg_sq", param);
    const double plain = lr / now.correction1, adapted = plain * now.factor * std::sqrt(now.correction2);
    if (steps.take(param, grad, {exp_avg, exp_avg_sq}, {plain, adapted})) return;
    const Tensor g = decayed(param, grad, o);
    exp_avg.lerp_(g, 1 - b1);
    exp_avg_sq.mul_(b2).addcmul_(g, g, 1 - b2);
    const Tensor move = exp_avg / now.correction1 * lr;
    if (now.factor == 0) {
      param.add_(move, -1.0);
      return;
    }
    const Tensor rate = std::pow(now.correction2, 0.5) / sqrt(exp_avg_sq).add_(eps);
    param.add_(move * rate * now.factor, -1.0);
  });
  steps.run({detail::common_of(o), {beta1, beta2, eps}, is_decoupled(o)});
}

ASGD::ASGD(std::vector<ParamGroup> groups, const ASGDOptions& options)
    : Optimizer("ASGD", std::move(groups), checked_defaults(options)) {}

void ASGD::update(const ParamGroup& group) {
  const NoGradGuard no_history;
  const OptionMap& o = group.options;
  const double lr = o.number("lr"), lambda = o.number("lambd");
  detail::AdaptiveSteps steps(&OptimizerTable::asgd);
  each_gradient(group, [&](const Tensor& given, const Tensor& grad, ParamState& state) {
    const double step = detail::count_step(state);
    const Tensor param = given.detach();
    const Tensor eta = number_state(state, "eta", lr), mu = number_state(state, "mu", 1);
    const Tensor average = detail::state_tensor(state, "ax", param);
    const double rate = eta.item<double>(), share = mu.item<double>();
    if (!steps.take(param, grad, {average}, {rate, share})) {
      const Tensor g = decayed(param, grad, o);
      param.mul_(1 - lambda * rate);
      param.add_(g, -rate);
      if (share == 1) {
        average.copy_(param);
      } else {
        average.add_(param.sub(average).mul_(mu));
      }
    }
    eta.fill_(lr / std::pow(1 + lambda * lr * step, o.number("alpha")));
    mu.fill_(1 / std::max(1.0, step - o.number("t0")));
  });
  steps.run({detail::common_of(o), {lambda}});
}

Rprop::Rprop(std::vector<ParamGroup> groups, const RpropOptions& options)
    : Optimizer("Rprop", std::move(groups), checked_defaults(options)) {}

void Rprop::update(const ParamGroup& group) {
  const NoGradGuard no_history;
  const OptionMap& o = group.options;
  const auto [minus, plus] = numbers(o, "etas");
  const auto [least, most] = numbers(o, "step_sizes");
  detail::AdaptiveSteps steps(&OptimizerTable::rprop);
  each_gradient(group, [&, eta_minus = minus, eta_plus = plus, low = least, high = most](
                           const Tensor& given, const Tensor& grad, ParamState& state) {
    detail::count_step(state);
    const Tensor param = given.detach();
    const Tensor previous = detail::state_tensor(state, "prev", param);
    Tensor sizes = detail::find_state(state, "step_size");
    if (!sizes.defined()) {
      sizes = full_like(param, o.number("lr"));
      state.emplace_back("step_size", sizes);
    }
    if (steps.take(param, grad, {previous, sizes})) return;
    const Tensor g = signed_grad(grad, o), product = g * previous;
    const Tensor turned = product < 0;
    const Tensor factor = where(product > 0, Scalar(eta_plus), where(turned, Scalar(eta_minus), ones_like(param)));
    sizes.mul_(factor).clamp_(low, high);
    const Tensor used = masked_fill(g, turned, 0);
    param.addcmul_(sign(used), sizes, -1);
    previous.copy_(used);
  });
  steps.run({detail::common_of(o), {minus, plus, least, most}});
}

}  // namespace core

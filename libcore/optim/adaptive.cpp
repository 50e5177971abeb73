#include "libcore/optim/adaptive.h"

#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/host_array.h"
#include "libcore/optim/step_lists.h"
#include "libcore/optim/update.h"
#include "libcore/optim/update_composed.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::check_option;

OptionMap checked_defaults(const RMSpropOptions& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  check_option(o.eps.to_double() >= 0, "Invalid epsilon value", o.eps);
  check_option(o.momentum.to_double() >= 0, "Invalid momentum value", o.momentum);
  check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  check_option(o.alpha.to_double() >= 0, "Invalid alpha value", o.alpha);
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"alpha", o.alpha},
          {"eps", o.eps},
          {"centered", Scalar(o.centered)},
          {"weight_decay", o.weight_decay},
          {"capturable", Scalar(false)},
          {"foreach", {}},
          {"maximize", Scalar(o.maximize)},
          {"differentiable", Scalar(false)}};
}

OptionMap checked_defaults(const AdagradOptions& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  check_option(o.lr_decay.to_double() >= 0, "Invalid lr_decay value", o.lr_decay);
  check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  check_option(o.initial_accumulator_value.to_double() >= 0, "Invalid initial_accumulator_value value",
               o.initial_accumulator_value);
  check_option(o.eps.to_double() >= 0, "Invalid epsilon value", o.eps);
  return {{"lr", o.lr},
          {"lr_decay", o.lr_decay},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"initial_accumulator_value", o.initial_accumulator_value},
          {"foreach", {}},
          {"maximize", Scalar(o.maximize)},
          {"differentiable", Scalar(false)},
          {"fused", {}}};
}

OptionMap checked_defaults(const AdadeltaOptions& o) {
  check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  check_option(o.rho.to_double() >= 0 && o.rho.to_double() <= 1, "Invalid rho value", o.rho);
  check_option(o.eps.to_double() >= 0, "Invalid epsilon value", o.eps);
  check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  return {{"lr", o.lr},
          {"rho", o.rho},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"maximize", Scalar(o.maximize)},
          {"capturable", Scalar(false)},
          {"foreach", {}},
          {"differentiable", Scalar(false)}};
}

/// Of the rows that have a gradient alone.
void update_sparse(const Tensor& param, const Tensor& given, const Tensor& sum, const detail::AdagradUpdate& how) {
  if (how.common.weight_decay != 0) {
    throw Error(ErrorCode::runtime, "weight_decay option is not compatible with sparse gradients");
  }
  const Tensor grad = coalesce(how.common.maximize ? given * -1 : given);
  const Tensor indices = sparse_indices(grad), values = sparse_values(grad);
  if (values.numel() == 0) return;
  const auto sparse = [&](const Tensor& rows) { return sparse_coo_tensor(indices, rows, grad.sizes()); };
  sum.add_(sparse(values * values));
  const Tensor root = detail::rows_at(sum, indices).sqrt() + how.eps;
  param.detach().add_(sparse(values / root), -how.rate);
}

}  // namespace

RMSprop::RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options)
    : Optimizer("RMSprop", std::move(groups), checked_defaults(options)) {}

void RMSprop::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  detail::RmspropUpdate how{detail::common_of(o), o.number("alpha"), o.number("eps"), o.number("momentum")};
  bool centered = o.flag("centered");
  const detail::AdaptiveUpdate numbers{how.common, {how.alpha, how.eps, how.momentum}};
  detail::AdaptiveSteps steps(&OptimizerTable::rmsprop);
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    detail::count_step(state);
    Tensor square_avg = detail::state_tensor(state, "square_avg", param);
    Tensor buffer = how.momentum > 0 ? detail::state_tensor(state, "momentum_buffer", param) : Tensor();
    Tensor grad_avg = centered ? detail::state_tensor(state, "grad_avg", param) : Tensor();
    if (steps.take(param, grad, {square_avg, buffer, grad_avg})) return;
    if (detail::is_out_of_reach(param)) {
      return detail::composed_rmsprop(param, grad, {square_avg, buffer, grad_avg}, how);
    }
    steps.run_copies(param, grad, {square_avg, buffer, grad_avg}, {}, numbers);
  });
  steps.run(numbers);
}

Adagrad::Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options)
    : Optimizer("Adagrad", std::move(groups), checked_defaults(options)) {
  take_sparse();
  for (const ParamGroup& group : param_groups()) {
    Scalar start = group.options.number("initial_accumulator_value");
    for (const Tensor& param : group.params) {
      mutable_state_of(param) = {{"step", detail::new_step()}, {"sum", full_like(param.detach(), start)}};
    }
  }
}

void Adagrad::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  detail::AdagradUpdate how{detail::common_of(o), 0, o.number("eps")};
  const detail::AdaptiveUpdate numbers{how.common, {how.eps}};
  detail::AdaptiveSteps steps(&OptimizerTable::adagrad);
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    double step = detail::count_step(state);
    how.rate = how.common.lr / (1 + (step - 1) * o.number("lr_decay"));
    Tensor sum = detail::state_tensor(state, "sum", param);
    if (detail::any_sparse(grad)) return update_sparse(param, grad, sum, how);
    if (steps.take(param, grad, {sum}, {how.rate})) return;
    if (detail::is_out_of_reach(param)) return detail::composed_adagrad(param, grad, sum, how);
    steps.run_copies(param, grad, {sum}, {how.rate}, numbers);
  });
  steps.run(numbers);
}

Adadelta::Adadelta(std::vector<ParamGroup> groups, const AdadeltaOptions& options)
    : Optimizer("Adadelta", std::move(groups), checked_defaults(options)) {}

void Adadelta::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  detail::AdadeltaUpdate how{detail::common_of(o), o.number("rho"), o.number("eps")};
  const detail::AdaptiveUpdate numbers{how.common, {how.rho, how.eps}};
  detail::AdaptiveSteps steps(&OptimizerTable::adadelta);
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    detail::count_step(state);
    Tensor square_avg = detail::state_tensor(state, "square_avg", param);
    Tensor acc_delta = detail::state_tensor(state, "acc_delta", param);
    if (steps.take(param, grad, {square_avg, acc_delta})) return;
    if (detail::is_out_of_reach(param)) {
      return detail::composed_adadelta(param, grad, {square_avg, acc_delta}, how);
    }
    steps.run_copies(param, grad, {square_avg, acc_delta}, {}, numbers);
  });
  steps.run(numbers);
}

}  // namespace core

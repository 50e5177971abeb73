#include "libcore/optim/sgd.h"

#include "libcore/backend/cuda_graph.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/host_array.h"
#include "libcore/optim/step_lists.h"
#include "libcore/optim/update.h"
#include "libcore/optim/update_composed.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

OptionMap checked_defaults(const SGDOptions& o) {
  detail::check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  detail::check_option(o.momentum.to_double() >= 0, "Invalid momentum value", o.momentum);
  detail::check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  if (o.nesterov && (o.momentum.to_double() <= 0 || o.dampening.to_double() != 0)) {
    throw Error(ErrorCode::value, "Nesterov momentum requires a momentum and zero dampening");
  }
  return {{"lr", o.lr},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", Scalar(o.nesterov)},
          {"maximize", Scalar(o.maximize)},
          {"foreach", {}},
          {"differentiable", Scalar(false)},
          {"fused", {}}};
}

/// The momentum is sparse too, as in PyTorch.
void update_sparse(const Tensor& param, Tensor grad, ParamState& state, const detail::SgdUpdate& how) {
  if (how.common.maximize) grad = grad * -1;
  if (how.common.weight_decay != 0) grad = grad + param.detach() * how.common.weight_decay;
  if (how.momentum != 0) {
    const Tensor& known = detail::find_state(state, "momentum_buffer");
    if (known.defined()) {
      known.mul_(how.momentum);
      known.add_(grad, 1 - how.dampening);
    } else {
      state.emplace_back("momentum_buffer", grad.clone());
    }
    const Tensor& buffer = detail::find_state(state, "momentum_buffer");
    grad = how.nesterov ? grad + buffer * how.momentum : buffer;
  }
  param.detach().add_(grad, -how.common.lr);
}

void update_copies(const Tensor& param, const Tensor& grad, const Tensor& buffer, const detail::SgdUpdate& how) {
  detail::in_update_type(param, [&]<class T>() {
    detail::HostArray<T> p(param);
    detail::HostArray<T> g(grad);
    detail::HostArray<T> b(buffer);
    const SgdTensor tensor{param.numel(), p.data(), g.data(), b.data(), nullptr, how.first};
    detail::run_on_host<T>(&OptimizerTable::sgd, detail::sgd_params(how, {&tensor, 1}));
    p.commit();
    b.commit();
  });
}

}  // namespace

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& options)
    : Optimizer("SGD", std::move(groups), checked_defaults(options)), rates_(param_groups()) {
  take_sparse();
}

/// Operations are given the rate as a number, which stays in the graph.
bool SGD::follows_rate(const ParamGroup& /*group*/) const {
  return !records_numbers_;
}

void SGD::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  detail::SgdUpdate how{.common = {o.number("lr"), o.number("weight_decay"), o.flag("maximize")},
                        .momentum = o.number("momentum"),
                        .dampening = o.number("dampening"),
                        .nesterov = o.flag("nesterov"),
                        .first = false};
  const Tensor none;
  detail::SgdSteps steps;
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    const bool is_recorded = detail::is_out_of_reach(param) && cuda::is_current_stream_capturing(param.device());
    if (detail::any_sparse(grad)) {
      records_numbers_ = records_numbers_ || is_recorded;
      return update_sparse(param, grad, state, how);
    }
    how.first = how.momentum != 0 && !detail::find_state(state, "momentum_buffer").defined();
    const Tensor& buffer = how.momentum != 0 ? detail::state_tensor(state, "momentum_buffer", param) : none;
    const Tensor rate = is_recorded ? rates_.on(param.device(), group) : none;
    if (steps.take(param, grad, {buffer, rate}, how)) return;
    if (!detail::is_out_of_reach(param)) return update_copies(param, grad, buffer, how);
    records_numbers_ = records_numbers_ || is_recorded;
    detail::composed_sgd(param, grad, buffer, how);
  });
  steps.run(how);
}

}  // namespace core

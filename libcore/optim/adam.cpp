#include "libcore/optim/adam.h"

#include "libcore/optim/host_array.h"
#include "libcore/optim/step_lists.h"
#include "libcore/optim/update.h"
#include "libcore/optim/update_composed.h"

namespace core {
namespace {

bool is_share(const Scalar& value) {
  return value.to_double() >= 0 && value.to_double() < 1;
}

OptionMap checked_defaults(const AdamOptions& o) {
  detail::check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  detail::check_option(o.eps.to_double() >= 0, "Invalid epsilon value", o.eps);
  detail::check_option(is_share(o.betas.first), "Invalid beta parameter at index 0", o.betas.first);
  detail::check_option(is_share(o.betas.second), "Invalid beta parameter at index 1", o.betas.second);
  detail::check_option(o.weight_decay.to_double() >= 0, "Invalid weight_decay value", o.weight_decay);
  return {{"lr", o.lr},
          {"betas", std::vector<Scalar>{o.betas.first, o.betas.second}},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"amsgrad", Scalar(o.amsgrad)},
          {"maximize", Scalar(o.maximize)},
          {"foreach", {}},
          {"capturable", Scalar(o.capturable)},
          {"differentiable", Scalar(false)},
          {"fused", {}},
          {"decoupled_weight_decay", Scalar(o.decoupled_weight_decay)}};
}

std::pair<double, double> betas_of(const OptionMap& options) {
  const auto& betas = std::get<std::vector<Scalar>>(options.at("betas"));
  return {betas.at(0).to_double(), betas.at(1).to_double()};
}

/// Files of older versions have no such key; there the class alone decided.
bool is_decoupled(const OptionMap& options, const std::string& name) {
  return options.contains("decoupled_weight_decay") ? options.flag("decoupled_weight_decay") : name == "AdamW";
}

void update_copies(const Tensor& param, const Tensor& grad, const detail::AdamTensors& state,
                   const detail::AdamUpdate& how) {
  detail::in_update_type(param, [&]<class T>() {
    detail::HostArray<T> p(param);
    detail::HostArray<T> g(grad);
    detail::HostArray<T> m(state.exp_avg);
    detail::HostArray<T> v(state.exp_avg_sq);
    detail::HostArray<T> t(state.top);
    const AdamTensor tensor{param.numel(), p.data(), g.data(), m.data(), v.data(),
                            t.data(),      how.step, nullptr,  nullptr};
    detail::run_on_host<T>(&OptimizerTable::adam, detail::adam_params(how, {&tensor, 1}));
    for (const auto* array : {&p, &m, &v, &t}) array->commit();
  });
}

}  // namespace

Adam::Adam(std::string name, std::vector<ParamGroup> groups, const AdamOptions& options)
    : Optimizer(std::move(name), std::move(groups), checked_defaults(options)), rates_(param_groups()) {}

bool Adam::follows_rate(const ParamGroup& group) const {
  return group.options.contains("capturable") && group.options.flag("capturable");
}

void Adam::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  auto [beta1, beta2] = betas_of(o);
  const bool amsgrad = o.flag("amsgrad");
  const bool capturable = follows_rate(group);
  const Tensor none;
  detail::AdamUpdate how{.common = {o.number("lr"), o.number("weight_decay"), o.flag("maximize")},
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .eps = o.number("eps"),
                         .decoupled = is_decoupled(o, name())};
  detail::AdamSteps steps;
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    if (state.empty()) state.reserve(4);  // so that no state tensor moves while the others are made
    const bool counted = capturable && detail::is_out_of_reach(param);
    const detail::CountedThere there =
        counted ? detail::CountedThere{detail::device_step(state, param), rates_.on(param.device(), group)}
                : detail::CountedThere{};
    const auto count = [&] { how.step = detail::count_step(state); };
    if (!counted) count();
    const Tensor& exp_avg = detail::state_tensor(state, "exp_avg", param);
    const Tensor& exp_avg_sq = detail::state_tensor(state, "exp_avg_sq", param);
    const detail::AdamTensors moments{exp_avg, exp_avg_sq,
                                      amsgrad ? detail::state_tensor(state, "max_exp_avg_sq", param) : none};
    if (steps.take(param, grad, moments, there, how)) return;
    if (!detail::is_out_of_reach(param)) return update_copies(param, grad, moments, how);
    if (counted) count();
    detail::set_step(how, how.step);
    detail::composed_adam(param, grad, moments, how);
  });
  steps.run(how);
}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& o)
    : Adam("AdamW", std::move(groups),
           {.lr = o.lr,
            .betas = o.betas,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .amsgrad = o.amsgrad,
            .maximize = o.maximize,
            .decoupled_weight_decay = true,
            .capturable = o.capturable}) {}

}  // namespace core

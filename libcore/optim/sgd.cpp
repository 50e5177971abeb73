#include "libcore/optim/sgd.h"

#include "libcore/base/error.h"
#include "libcore/optim/host_array.h"
#include "libcore/optim/update.h"

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

}  // namespace

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& options)
    : Optimizer("SGD", std::move(groups), checked_defaults(options)) {}

void SGD::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  detail::SgdUpdate how{.common = {o.number("lr"), o.number("weight_decay"), o.flag("maximize")},
                        .momentum = o.number("momentum"),
                        .dampening = o.number("dampening"),
                        .nesterov = o.flag("nesterov"),
                        .first = false};
  const Tensor none;
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    how.first = how.momentum != 0 && !detail::find_state(state, "momentum_buffer").defined();
    const Tensor& buffer = how.momentum != 0 ? detail::state_tensor(state, "momentum_buffer", param) : none;
    detail::in_update_type(param, [&]<class T>() {
      detail::HostArray<T> p(param);
      detail::HostArray<T> g(grad);
      detail::HostArray<T> b(buffer);
      detail::update_sgd<T>({p.data(), g.data(), param.numel()}, b.data(), how);
      p.commit();
      b.commit();
    });
  });
}

}  // namespace core

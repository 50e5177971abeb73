#include "libcore/optim/update_composed.h"

#include <cmath>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

/// The gradient after maximize and weight decay.
Tensor gradient_of(const Tensor& param, const Tensor& grad, const CommonUpdate& common) {
  Tensor g = grad.detach();
  if (common.maximize) g = g.neg();
  return common.weight_decay == 0 ? g : g.add(param.detach(), common.weight_decay);
}

}  // namespace

void set_step(AdamUpdate& how, double step) {
  how.step = step;
  how.rate = -(how.common.lr / (1 - std::pow(how.beta1, step)));
  how.correction2 = std::sqrt(1 - std::pow(how.beta2, step));
}

void composed_sgd(const Tensor& param, const Tensor& grad, const Tensor& buffer, const SgdUpdate& how) {
  const NoGradGuard no_grad;
  Tensor step = gradient_of(param, grad, how.common);
  if (buffer.defined()) {
    if (how.first) {
      buffer.copy_(step);
    } else {
      buffer.mul_(how.momentum).add_(step, 1 - how.dampening);
    }
    step = how.nesterov ? step.add(buffer, how.momentum) : buffer;
  }
  param.detach().add_(step, -how.common.lr);
}

void composed_adam(const Tensor& param, const Tensor& grad, const AdamTensors& state, const AdamUpdate& how) {
  const NoGradGuard no_grad;
  const Tensor p = param.detach();
  CommonUpdate coupled = how.common;
  if (how.decoupled) {
    coupled.weight_decay = 0;
    if (how.common.weight_decay != 0) p.mul_(1 - how.common.lr * how.common.weight_decay);
  }
  const Tensor g = gradient_of(param, grad, coupled);
  state.exp_avg.lerp_(g, 1 - how.beta1);
  state.exp_avg_sq.mul_(how.beta2).addcmul_(g, g, 1 - how.beta2);
  if (state.top.defined()) state.top.copy_(maximum(state.top, state.exp_avg_sq));
  const Tensor& second = state.top.defined() ? state.top : state.exp_avg_sq;
  p.addcdiv_(state.exp_avg, second.sqrt().div_(how.correction2).add_(how.eps), how.rate);
}

void composed_rmsprop(const Tensor& param, const Tensor& grad, const RmspropTensors& state, const RmspropUpdate& how) {
  const NoGradGuard no_grad;
  const Tensor g = gradient_of(param, grad, how.common);
  state.square_avg.mul_(how.alpha).addcmul_(g, g, 1 - how.alpha);
  Tensor average;
  if (state.grad_avg.defined()) {
    state.grad_avg.lerp_(g, 1 - how.alpha);
    average = addcmul(state.square_avg, state.grad_avg, state.grad_avg, -1).sqrt();
  } else {
    average = state.square_avg.sqrt();
  }
  average.add_(how.eps);
  const Tensor p = param.detach();
  if (!state.buffer.defined()) {
    p.addcdiv_(g, average, -how.common.lr);
    return;
  }
  state.buffer.mul_(how.momentum).addcdiv_(g, average);
  p.add_(state.buffer, -how.common.lr);
}

void composed_adagrad(const Tensor& param, const Tensor& grad, const Tensor& sum, const AdagradUpdate& how) {
  const NoGradGuard no_grad;
  const Tensor g = gradient_of(param, grad, how.common);
  sum.addcmul_(g, g, 1);
  param.detach().addcdiv_(g, sum.sqrt().add_(how.eps), -how.rate);
}

void composed_adadelta(const Tensor& param, const Tensor& grad, const AdadeltaTensors& state,
                       const AdadeltaUpdate& how) {
  const NoGradGuard no_grad;
  const Tensor g = gradient_of(param, grad, how.common);
  state.square_avg.mul_(how.rho).addcmul_(g, g, 1 - how.rho);
  const Tensor deviation = state.square_avg.add(how.eps).sqrt_();
  const Tensor delta = state.acc_delta.add(how.eps).sqrt_().div_(deviation).mul_(g);
  state.acc_delta.mul_(how.rho).addcmul_(delta, delta, 1 - how.rho);
  param.detach().add_(delta, -how.common.lr);
}

}  // namespace core::detail

#include "libcore/optim/clip.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

namespace core {
namespace {

std::vector<Tensor> gradients(const std::vector<Tensor>& params) {
  std::vector<Tensor> grads;
  for (const Tensor& param : params) {
    if (Tensor grad = param.grad(); grad.defined()) grads.push_back(grad);
  }
  return grads;
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type) {
  NoGradGuard no_grad;
  std::vector<Tensor> grads = gradients(params);
  if (grads.empty()) return tensor(0.0);
  std::vector<Tensor> norms;
  for (const Tensor& grad : grads) norms.push_back(norm(grad, {.p = norm_type}).to(grads[0].device()));
  Tensor total = norm(stack(norms), {.p = norm_type});
  Tensor factor = clamp(div(full_like(total, max_norm), add(total, 1e-6)), std::nullopt, 1.0);
  for (const Tensor& grad : grads) grad.mul_(factor.to(grad.device()));
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value) {
  NoGradGuard no_grad;
  for (const Tensor& grad : gradients(params)) grad.clamp_(-clip_value, clip_value);
}

}  // namespace core

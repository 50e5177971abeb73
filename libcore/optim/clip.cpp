#include "libcore/optim/clip.h"

#include <cmath>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

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

Tensor total_norm(const std::vector<Tensor>& tensors, double norm_type) {
  const NoGradGuard no_grad;
  if (tensors.empty()) return tensor(0.0);
  std::vector<Tensor> norms;
  for (const Tensor& one : tensors) norms.push_back(norm(one, {.p = norm_type}).to(tensors[0].device()));
  return norm(stack(norms), {.p = norm_type});
}

void clip_grads_with_norm_(const std::vector<Tensor>& params, double max_norm, const Tensor& total) {
  const NoGradGuard no_grad;
  const std::vector<Tensor> grads = gradients(params);
  if (grads.empty()) return;
  const Tensor factor = clamp(div(full_like(total, max_norm), add(total, 1e-6)), std::nullopt, 1.0);
  for (const Tensor& grad : grads) grad.mul_(factor.to(grad.device()));
}

Tensor get_total_norm(const std::vector<Tensor>& tensors, double norm_type, bool error_if_nonfinite) {
  const Tensor total = total_norm(tensors, norm_type);
  if (error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw Error(
        ErrorCode::runtime,
        "The total norm of order " + python_float(norm_type) +
            " for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and "
            "scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`");
  }
  return total;
}

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type, bool error_if_nonfinite) {
  const Tensor total = get_total_norm(gradients(params), norm_type, error_if_nonfinite);
  clip_grads_with_norm_(params, max_norm, total);
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value) {
  NoGradGuard no_grad;
  for (const Tensor& grad : gradients(params)) grad.clamp_(-clip_value, clip_value);
}

}  // namespace core

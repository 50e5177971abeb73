// Regression and probability losses.
#include "libcore/ops/loss.h"

#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/loss_reduction.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::reduced;

std::string size_text(const Tensor& x) {
  return "torch.Size(" + to_list(x.sizes()) + ")";
}

Tensor at_least(const Tensor& x, double low) {
  return clamp(x, low);
}

/// x * log(y), 0 where x is 0.
Tensor times_log(const Tensor& x, const Tensor& y) {
  const Tensor zero = eq(x, Scalar(0));
  return masked_fill(x * log(masked_fill(y, zero, 1)), zero, 0);
}

/// False where the device checks it by itself.
bool any_outside(const Tensor& x, double low, double high) {
  const NoGradGuard no_history;
  if (x.is_meta() || x.numel() == 0) return false;
  const Tensor outside = logical_not(logical_and(ge(x, low), le(x, high)));
  if (!detail::asserts_later(x)) return any(outside).item<bool>();
  detail::assert_none(outside);
  return false;
}

/// PyTorch's gradient is finite at probabilities of 0 and 1, where that of the formula is not. Saved: x, target,
/// weight.
struct BinaryCrossEntropyBackward final : Node {
  Reduction reduction = Reduction::mean;
  std::string_view name() const override { return "BinaryCrossEntropyBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    const Tensor x = saved(0), target = saved(1), weight = saved(2);
    Tensor upstream = weight.defined() ? grads[0] * weight : grads[0];
    if (reduction == Reduction::mean) upstream = upstream / x.numel();
    if (wants(0)) result[0] = upstream * (x - target) / at_least((1 - x) * x, 1e-12);
    if (wants(1)) result[1] = upstream * (log1p(-x) - log(x));
    return result;
  }
};

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return l1_loss(to(x), to(target), reduction);
  detail::warn_sizes(x, target);
  return reduced(abs(x - target), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1Options& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return smooth_l1_loss(to(x), to(target), o);
  detail::warn_sizes(x, target);
  if (o.beta < 0) throw Error(ErrorCode::runtime, "smooth_l1_loss does not support negative values for beta.");
  if (o.beta == 0) return l1_loss(x, target, o.reduction);
  return composed("SmoothL1LossBackward0", {x, target}, [o](const TensorList& in) {
    const Tensor d = in[0] - in[1], size = abs(d);
    return reduced(where(size < o.beta, square(d) * (0.5 / o.beta), size - 0.5 * o.beta), o.reduction);
  });
}

Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return huber_loss(to(x), to(target), o);
  detail::warn_sizes(x, target);
  if (o.delta <= 0) throw Error(ErrorCode::runtime, "huber_loss does not support non-positive values for delta.");
  return composed("HuberLossBackward0", {x, target}, [o](const TensorList& in) {
    const Tensor d = in[0] - in[1], size = abs(d);
    return reduced(where(size <= o.delta, square(d) * 0.5, (size - 0.5 * o.delta) * o.delta), o.reduction);
  });
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const BceOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("binary_cross_entropy", {x, target, o.weight},
                                {{"reduction", static_cast<std::int64_t>(o.reduction)}},
                                [&] { return binary_cross_entropy(x, target, o); });
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x, &target}); to) return binary_cross_entropy(to(x), to(target), o);
  if (x.sizes() != target.sizes()) {
    throw Error(ErrorCode::value, "Using a target size (" + size_text(target) +
                                      ") that is different to the input size (" + size_text(x) +
                                      ") is deprecated. Please ensure they have the same size.");
  }
  if (any_outside(x, 0, 1)) throw Error(ErrorCode::runtime, "all elements of input should be between 0 and 1");
  if (any_outside(target, 0, 1)) throw Error(ErrorCode::runtime, "all elements of target should be between 0 and 1");
  Tensor out;
  {
    const NoGradGuard no_history;
    const Tensor yes = at_least(log(x), -100), no = at_least(log1p(-x), -100);
    const Tensor loss = (target - 1) * no - target * yes;
    out = reduced(o.weight.defined() ? loss * o.weight : loss, o.reduction);
  }
  if (!needs_grad(x, target)) return out;
  auto node = make_node<BinaryCrossEntropyBackward>(x, target);
  node->reduction = o.reduction;
  node->save(x);
  node->save(target);
  node->save(o.weight);
  record(out, node);
  return out;
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const BceLogitsOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to)
    return binary_cross_entropy_with_logits(to(x), to(target), o);
  if (x.sizes() != target.sizes()) {
    throw Error(ErrorCode::value,
                "Target size (" + size_text(target) + ") must be the same as input size (" + size_text(x) + ")");
  }
  const Reduction reduction = o.reduction;
  return composed("BinaryCrossEntropyWithLogitsBackward0", {x, target, o.weight, o.pos_weight},
                  [reduction](const TensorList& in) {
                    const Tensor log_yes = log_sigmoid(in[0]);
                    Tensor loss = (1 - in[1]) * in[0];
                    loss = in[3].defined() ? loss - ((in[3] - 1) * in[1] + 1) * log_yes : loss - log_yes;
                    return reduced(in[2].defined() ? loss * in[2] : loss, reduction);
                  });
}

Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return kl_div(to(x), to(target), o);
  const bool mean_of_all = o.reduction == Reduction::mean && !o.batch_mean;
  if (mean_of_all) {
    warn(
        "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only "
        "by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as "
        "'batchmean' in the next major release.");
  }
  const Tensor loss = o.log_target ? exp(target) * (target - x) : times_log(target, target) - target * x;
  if (!o.batch_mean) return reduced(loss, o.reduction);
  return x.dim() == 0 ? sum(loss) : sum(loss) / x.size(0);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return poisson_nll_loss(to(x), to(target), o);
  Tensor loss = o.log_input ? exp(x) - target * x : x - target * log(x + o.eps);
  if (o.full) {
    const Tensor stirling = target * log(target) - target + log(target * (2 * std::numbers::pi)) * 0.5;
    loss = loss + masked_fill(stirling, le(target, Scalar(1)), 0);
  }
  return reduced(loss, o.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, const GaussianNllOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced(
        "gaussian_nll_loss", {x, target, var},
        {{"full", o.full}, {"eps", o.eps}, {"reduction", static_cast<std::int64_t>(o.reduction)}},
        [&] { return gaussian_nll_loss(x, target, var, o); });
  Tensor spread = var;
  if (var.sizes() != x.sizes()) {
    Shape without_last = x.sizes();
    if (!without_last.empty()) without_last.pop_back();
    Shape with_one = without_last;
    with_one.push_back(1);
    if (var.sizes() == without_last) {
      spread = var.unsqueeze(-1);
    } else if (var.sizes() != with_one) {
      throw Error(ErrorCode::value, "var is of incorrect size");
    }
  }
  if (any_outside(var, 0, HUGE_VAL)) throw Error(ErrorCode::value, "var has negative entry/entries");
  // The limit takes no part in the gradient.
  const Tensor limited = spread + (at_least(spread.detach(), o.eps) - spread.detach());
  Tensor loss = (log(limited) + square(x - target) / limited) * 0.5;
  if (o.full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(loss, o.reduction);
}

}  // namespace core

// Dropout of elements, of channels, and alpha dropout: random masks, then differentiable arithmetic. CUDA devices drop
// elements in one kernel, whose threads make neighbouring elements: other numbers than a mask by bernoulli_ would have.
#include "libcore/ops/dropout.h"

#include <cmath>
#include <string>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/random_on_device.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// Saved: where elements were kept.
struct NativeDropoutBackward final : Node {
  double scale = 1;
  std::string_view name() const override { return "NativeDropoutBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    if (!is_grad_enabled()) {
      if (Tensor grad = detail::cuda_dropout_grad(grads[0], saved(0), scale); grad.defined()) return {grad};
    }
    return {mul(mul(grads[0], saved(0)), scale)};
  }
};

Tensor dropped_on_cuda(const Tensor& x, double p) {
  detail::DroppedOut result = detail::cuda_dropped_out(x, p);
  if (needs_grad(x)) {
    auto node = make_node<NativeDropoutBackward>(x);
    node->scale = 1 / (1 - p);
    node->save(result.kept);
    record(result.out, node);
  }
  return result.out;
}

/// 0 with probability p, else 1 / (1 - p).
Tensor dropout_mask(const Tensor& x, double p) {
  const NoGradGuard no_history;
  if (p == 1) return zeros_like(x.detach());
  const Tensor mask = empty_like(x.detach());
  bernoulli_(mask, 1 - p);
  return mask.div_(1 - p);
}

bool does_nothing(const Tensor& x, double p, bool training) {
  check_dropout_probability(p);
  return !training || p == 0 || x.numel() == 0;
}

/// (N, C, 1, 1, ...)
Shape channels_of(const Tensor& x) {
  if (x.dim() < 2) throw Error(ErrorCode::runtime, "Feature dropout requires at least 2 dimensions in the input");
  Shape sizes(x.sizes().size(), 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return sizes;
}

/// 0 with probability p, else 1.
Tensor kept(const Tensor& x, const Shape& sizes, double p) {
  const Tensor mask = empty(sizes, {.dtype = x.dtype(), .device = x.device()});
  return bernoulli_(mask, 1 - p);
}

/// The warning of dropout2d and dropout3d for an input of another rank; `fits` is "3D or 4D".
void warn_rank(const Tensor& x, int spatial, const char* fits) {
  const std::string name = "dropout" + std::to_string(spatial) + "d";
  warn(name + ": Received a " + std::to_string(x.dim()) + "-D input to " + name +
       ", which is deprecated and will result in an error in a future release. To retain the behavior and silence this "
       "warning, please use dropout instead. Note that " +
       name + " exists to provide channel-wise dropout on inputs with " + std::to_string(spatial) +
       " spatial dimensions, a channel dimension, and an optional batch dimension (i.e. " + fits + " inputs).");
}

/// What an element is multiplied by, and what is added then. REQUIRES: p < 1.
struct AlphaMask {
  Tensor factor, shift;
};
AlphaMask alpha_mask(const Tensor& x, const Shape& sizes, double p) {
  constexpr double kAlpha = 1.7580993408473766;  // SELU's negative limit
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor mask = kept(x, sizes, p);
  const NoGradGuard no_history;
  const Tensor shift = (mask + -1).mul_(kAlpha * scale).add_(kAlpha * scale * p);
  return {mask.mul_(scale), shift};
}

Tensor alpha_dropped(const Tensor& x, const Shape& mask_sizes, double p) {
  if (p == 1) return x * zeros_like(x.detach());
  const AlphaMask mask = alpha_mask(x, mask_sizes, p);
  return x * mask.factor + mask.shift;
}
const Tensor& alpha_drop_into(const Tensor& x, const Shape& mask_sizes, double p) {
  if (p == 1) return x.mul_(zeros_like(x.detach()));
  const AlphaMask mask = alpha_mask(x, mask_sizes, p);
  return x.mul_(mask.factor).add_(mask.shift);
}

}  // namespace

void check_dropout_probability(double p) {
  if (p >= 0 && p <= 1) return;
  throw Error(ErrorCode::value, "dropout probability has to be between 0 and 1, but got " + python_float(p));
}

Tensor dropout(const Tensor& x, double p, bool training) {
  if (core::detail::traced_now())
    return core::detail::traced("dropout", {x}, {{"active", training && p > 0}},
                                [&] { return dropout(x, p, training); });
  const core::detail::OpScope scope("dropout", x);
  check_dropout_probability(p);
  if (!training || p == 0 || x.numel() == 0) return x;
  if (x.device().is_cuda() && x.is_floating_point() && p < 1) return dropped_on_cuda(x, p);
  return mul(x, dropout_mask(x, p));
}

Tensor dropout_(const Tensor& x, double p, bool training) {
  check_dropout_probability(p);
  if (!training || p == 0 || x.numel() == 0) return x;
  return x.mul_(dropout_mask(x, p));
}

Tensor feature_dropout(const Tensor& x, double p, bool training) {
  if (does_nothing(x, p, training)) return x;
  if (p == 1) return x * zeros_like(x.detach());
  const Tensor mask = kept(x, channels_of(x), p);
  return x * mask.div_(1 - p);
}

Tensor dropout1d(const Tensor& x, double p, bool training) {
  if (x.dim() != 2 && x.dim() != 3) {
    throw Error(ErrorCode::runtime, "dropout1d: Expected 2D or 3D input, but received a " + std::to_string(x.dim()) +
                                        "D input. Note that dropout1d exists to provide channel-wise dropout on inputs "
                                        "with 1 spatial dimension, a channel dimension, and an optional batch "
                                        "dimension (i.e. 2D or 3D inputs).");
  }
  if (x.dim() == 3) return feature_dropout(x, p, training);
  return feature_dropout(x.unsqueeze(0), p, training).squeeze(0);
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  check_dropout_probability(p);
  if (x.dim() != 3 && x.dim() != 4) warn_rank(x, 2, "3D or 4D");
  if (x.dim() == 3) {
    warn(
        "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
        "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
        "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
        "channel-wise dropout behavior, please switch to using dropout1d instead.");
  }
  return feature_dropout(x, p, training);
}

Tensor dropout3d(const Tensor& x, double p, bool training) {
  check_dropout_probability(p);
  if (x.dim() != 4 && x.dim() != 5) warn_rank(x, 3, "4D or 5D");
  if (x.dim() == 5) return feature_dropout(x, p, training);
  return feature_dropout(x.unsqueeze(0), p, training).squeeze(0);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_dropped(x, x.sizes(), p);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_dropped(x, channels_of(x), p);
}

const Tensor& feature_dropout_(const Tensor& x, double p, bool training) {
  if (does_nothing(x, p, training)) return x;
  if (p == 1) return x.mul_(zeros_like(x.detach()));
  return x.mul_(kept(x, channels_of(x), p).div_(1 - p));
}

const Tensor& alpha_dropout_(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_drop_into(x, x.sizes(), p);
}

const Tensor& feature_alpha_dropout_(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_drop_into(x, channels_of(x), p);
}

}  // namespace core

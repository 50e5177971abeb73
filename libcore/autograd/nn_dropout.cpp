// Dropout of channels and alpha dropout: random masks, then differentiable arithmetic.
#include "libcore/tensor/dropout_ops.h"

#include <cmath>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/random.h"

namespace core {
namespace {

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

Tensor alpha_dropped(const Tensor& x, const Shape& mask_sizes, double p) {
  if (p == 1) return x * zeros_like(x.detach());
  constexpr double kAlpha = 1.7580993408473766;  // SELU's negative limit
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor mask = kept(x, mask_sizes, p);
  Tensor shift;
  {
    const NoGradGuard no_history;
    shift = (mask + -1).mul_(kAlpha * scale).add_(kAlpha * scale * p);
    mask.mul_(scale);
  }
  return x * mask + shift;
}

}  // namespace

Tensor feature_dropout(const Tensor& x, double p, bool training) {
  if (does_nothing(x, p, training)) return x;
  if (p == 1) return x * zeros_like(x.detach());
  const Tensor mask = kept(x, channels_of(x), p);
  return x * mask.div_(1 - p);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_dropped(x, x.sizes(), p);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  return does_nothing(x, p, training) ? x : alpha_dropped(x, channels_of(x), p);
}

}  // namespace core

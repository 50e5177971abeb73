// Activations that PyTorch has kernels for and that are rare enough to be made of other operations here.
#include "libcore/tensor/activation_ops.h"

#include <cmath>
#include <string>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/function_nodes.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/held_image.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/random.h"

namespace core {
namespace {

/// Saved: x.
struct HardtanhBackward final : Node {
  double low = -1, high = 1;
  std::string_view name() const override { return "HardtanhBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    return {g[0] * detail::mask_as(logical_and(x > low, x < high), g[0])};
  }
};

/// Saved: x.
struct HardsigmoidBackward final : Node {
  std::string_view name() const override { return "HardsigmoidBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    // PyTorch's constant is that of float, also for double.
    return {g[0] * detail::mask_as(logical_and(x > -3, x < 3), g[0]) * static_cast<double>(1.0F / 6.0F)};
  }
};

/// Saved: x.
struct HardswishBackward final : Node {
  std::string_view name() const override { return "HardswishBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    const Tensor slope = where(x < 3, x / 3 + 0.5, Scalar(1.0));
    return {g[0] * masked_fill(slope, le(x, -3), 0)};
  }
};

/// Saved: x. Softshrink and hardshrink alike pass the gradient outside +-lambda.
struct ShrinkBackward : Node {
  double lambda = 0.5;
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    return {g[0] * detail::mask_as(logical_or(x > lambda, x < -lambda), g[0])};
  }
};
struct SoftshrinkBackward final : ShrinkBackward {
  std::string_view name() const override { return "SoftshrinkBackward0"; }
};
struct HardshrinkBackward final : ShrinkBackward {
  std::string_view name() const override { return "HardshrinkBackward0"; }
};

template <class N>
Tensor shrunk(const Tensor& x, Tensor out, double lambda) {
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  node->lambda = lambda;
  node->save(x);
  record(out, node);
  return out;
}

/// In inference, of a held image; else undefined.
Tensor activated_image(const Tensor& x, ImageActivation activation) {
  return needs_grad(x) ? Tensor() : held::try_activate(x, activation);
}

/// max(0, scale * x) + min(0, alpha * scale * (exp(x * input_scale) - 1))
Tensor elu_of(const Tensor& x, double alpha, double scale, double input_scale) {
  return where(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale));
}

}  // namespace

Tensor hardtanh(const Tensor& x, double low, double high) {
  if (low == 0 && high == 6) {
    if (Tensor held = activated_image(x, ImageActivation::relu6); held.defined()) return held;
  }
  Tensor out;
  {
    const NoGradGuard no_history;
    out = clamp(x, low, high);
  }
  if (!needs_grad(x)) return out;
  auto node = make_node<HardtanhBackward>(x);
  node->low = low;
  node->high = high;
  node->save(x);
  record(out, node);
  return out;
}

Tensor relu6(const Tensor& x) {
  return hardtanh(x, 0, 6);
}

Tensor hardsigmoid(const Tensor& x) {
  const Tensor plain = x.detach();
  return detail::with_saved_input<HardsigmoidBackward>(x, clamp(plain + 3, 0, 6) / 6);
}

Tensor hardswish(const Tensor& x) {
  if (Tensor held = activated_image(x, ImageActivation::hardswish); held.defined()) return held;
  const Tensor plain = x.detach();
  return detail::with_saved_input<HardswishBackward>(x, plain * clamp(plain + 3, 0, 6) / 6);
}

Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  return composed("EluBackward0", {x}, [](const TensorList& in) { return elu_of(in[0], kAlpha, kScale, 1); });
}

Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0) throw Error(ErrorCode::runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
  return composed("CeluBackward0", {x}, [alpha](const TensorList& in) { return elu_of(in[0], alpha, 1, 1 / alpha); });
}

Tensor mish(const Tensor& x) {
  return composed("MishBackward0", {x}, [](const TensorList& in) { return in[0] * tanh(softplus(in[0])); });
}

Tensor softsign(const Tensor& x) {
  return x / (abs(x) + 1);
}

Tensor tanhshrink(const Tensor& x) {
  return x - tanh(x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  if (lambda < 0) {
    throw Error(ErrorCode::runtime,
                "lambda must be greater or equal to 0, but found to be " + std::to_string(lambda) + ".");
  }
  const Tensor plain = x.detach();
  const Tensor moved = where(plain > lambda, plain - lambda, where(plain < -lambda, plain + lambda, plain * 0));
  return shrunk<SoftshrinkBackward>(x, moved, lambda);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  const Tensor plain = x.detach();
  const Tensor inside = logical_and(ge(plain, -lambda), le(plain, lambda));
  return shrunk<HardshrinkBackward>(x, masked_fill(plain, inside, 0), lambda);
}

Tensor softmin(const Tensor& x, std::int64_t dim) {
  return softmax(neg(x), dim);
}

namespace {
/// The dimension that softmax and its kin choose when none was said.
std::int64_t implicit_dim(const char* name, const Tensor& x) {
  warn(std::string("Implicit dimension choice for ") + name +
       " has been deprecated. Change the call to include dim=X as an argument.");
  return x.dim() == 0 || x.dim() == 1 || x.dim() == 3 ? 0 : 1;
}
}  // namespace

Tensor softmax(const Tensor& x) {
  return softmax(x, implicit_dim("softmax", x));
}
Tensor log_softmax(const Tensor& x) {
  return log_softmax(x, implicit_dim("log_softmax", x));
}
Tensor softmin(const Tensor& x) {
  return softmin(x, implicit_dim("softmin", x));
}

Tensor glu(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0) throw Error(ErrorCode::runtime, "glu does not support 0-dimensional tensors");
  const std::int64_t at = raw::wrap_dim(dim, x.dim()), size = x.size(at);
  if (size % 2 != 0) {
    throw Error(ErrorCode::runtime, "Halving dimension must be even, but dimension " + std::to_string(at) +
                                        " is size " + std::to_string(size));
  }
  return composed("GluBackward0", {x}, [at, size](const TensorList& in) {
    return in[0].narrow(at, 0, size / 2) * sigmoid(in[0].narrow(at, size / 2, size / 2));
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (weight.numel() != 1) {
    if (x.dim() == 0) throw Error(ErrorCode::runtime, "Not allow zero-dim input tensor.");
    const std::int64_t channels = x.dim() >= 2 ? x.size(1) : 1;
    if (channels != weight.numel()) {
      throw Error(ErrorCode::runtime,
                  "Mismatch of parameter numbers and input channel size. Found parameter numbers = " +
                      std::to_string(weight.numel()) + " and channel size = " + std::to_string(channels) + ".");
    }
  }
  Shape beside(static_cast<std::size_t>(x.dim()), 1);
  if (x.dim() >= 2) beside[1] = weight.numel();
  return composed("PreluKernelBackward0", {x, weight.reshape(beside)},
                  [](const TensorList& in) { return where(in[0] > 0, in[0], in[0] * in[1]); });
}

Tensor rrelu(const Tensor& x, const RreluOptions& o) {
  if (!o.training) return leaky_relu(x, (o.lower + o.upper) / 2);
  const Tensor slope = empty_like(x.detach());
  slope.fill_(1);
  const Tensor drawn = empty_like(slope);
  uniform_(drawn, o.lower, o.upper);
  const Tensor factor = where(x.detach() <= 0, drawn, slope);
  return composed("RreluWithNoiseBackward0", {x}, [factor](const TensorList& in) { return in[0] * factor; });
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  return composed("LogitBackward0", {x}, [eps](const TensorList& in) {
    const Tensor limited = eps ? clamp(in[0], *eps, 1 - *eps) : in[0];
    return log(limited / (1 - limited));
  });
}

}  // namespace core

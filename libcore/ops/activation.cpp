#include "libcore/ops/activation.h"

#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/activation.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::in_place;
using detail::with_saved_input;
using detail::with_saved_output;

/// Saved: x.
struct HardtanhBackward final : Node {
  double low = -1, high = 1;
  std::string_view name() const override { return "HardtanhBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    return {masked_fill(g[0], logical_or(x <= low, x >= high), 0)};  // NaN lets it through
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

/// Saved: x. Softshrink and hardshrink alike pass the gradient outside +-lambda, and that of NaN.
struct ShrinkBackward : Node {
  double lambda = 0.5;
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    return {masked_fill(g[0], logical_and(x >= -lambda, x <= lambda), 0)};
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

/// PyTorch's kernels of these functions take no whole numbers.
void check_not_whole(const Tensor& x, std::string_view kernel) {
  if (is_integer(x.dtype()) || x.dtype() == DType::boolean)
    raw::throw_unsupported(kernel, raw::backend_of(x), x.dtype());
}

/// In inference, of a blocked image; else undefined.
Tensor activated_image(const Tensor& x, ImageActivation activation) {
  return needs_grad(x) ? Tensor() : blocked::try_activate(x, activation);
}

/// max(0, scale * x) + min(0, alpha * scale * (exp(x * input_scale) - 1)). The exponential of a large x would be
/// infinite, and its share of the gradient, 0, NaN.
Tensor elu_of(const Tensor& x, double alpha, double scale, double input_scale) {
  const Tensor is_low = x <= 0, low = masked_fill(x, logical_not(is_low), 0);
  return where(is_low, expm1(low * input_scale) * (alpha * scale), x * scale);
}

/// Whether the next gradient may take the place of this one, which nobody else sees. A profile shows an operation of
/// its own.
bool gives_way(const Tensor& grad, const Tensor& to) {
  if (!grad.is_contiguous() || !to.is_contiguous() || grad.sizes() != to.sizes() || grad.dtype() != to.dtype()) {
    return false;
  }
  StorageImpl* storage = grad.storage().id();  // which a hook may have lent
  const bool alone = grad.impl()->use_count() == 1 && storage->use_count() == 1 && packed_weights::may_keep(storage);
  const bool blocked = grad.storage()->blocked_image() != nullptr || to.storage()->blocked_image() != nullptr;
  return alone && !blocked && &raw::backend_of(grad) == &raw::backend_of(to) && !core::detail::traced_now() &&
         !core::detail::profiling.load(std::memory_order_relaxed);
}

Tensor relu_grad(Tensor grad, const Tensor& output) {
  if (!gives_way(grad, output)) return raw::binary(BinaryOp::relu_backward, grad, output);
  raw::binary_in_place(BinaryOp::relu_backward, grad, output);
  return grad;
}

CORE_NODE(ReluBackward, "ReluBackward0", if (is_grad_enabled()) return {masked_fill(g[0], saved(0) <= 0, 0)};
          return {relu_grad(std::move(g[0]), saved(0))};)

CORE_NODE(SiluBackward, "SiluBackward0", Tensor x = saved(0); Tensor s = sigmoid(x);
          return {g[0] * (s * (x * (1 - s) + 1))};)
CORE_NODE(LogSigmoidBackward, "LogSigmoidBackward0", return {g[0] * sigmoid(-saved(0))};)
CORE_NODE(GeluBackward, "GeluBackward0", Tensor x = saved(0); Tensor cdf = (erf(x * std::sqrt(0.5)) + 1) * 0.5;
          Tensor pdf = exp(square(x) * -0.5) * (1 / std::sqrt(2 * std::numbers::pi)); return {g[0] * (cdf + x * pdf)};)

/// Saved: x.
struct GeluTanhBackward final : Node {
  std::string_view name() const override { return "GeluBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0);
    if (!is_grad_enabled()) {
      if (Tensor fused = raw::try_gelu_tanh_grad(g[0], x); fused.defined()) return {fused};
    }
    const double scale = std::sqrt(2 / std::numbers::pi);
    const Tensor t = tanh((x + pow(x, 3) * 0.044715) * scale);
    const Tensor slope = (square(x) * (3 * 0.044715) + 1) * scale;
    return {g[0] * ((t + 1) * 0.5 + x * 0.5 * (1 - square(t)) * slope)};
  }
};

struct LeakyReluBackward final : Node {
  double slope = 0;
  std::string_view name() const override { return "LeakyReluBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    if (is_grad_enabled()) return {where(x > 0, g[0], g[0] * slope)};
    return {raw::binary(BinaryOp::leaky_relu_backward, g[0], x, {slope, 0, 0})};
  }
};
struct EluBackward final : Node {
  double alpha = 1;
  std::string_view name() const override { return "EluBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    const Tensor is_low = x <= 0, low = masked_fill(x, logical_not(is_low), 0);
    return {where(is_low, g[0] * (exp(low) * alpha), g[0])};
  }
};
struct SoftplusBackward final : Node {
  double beta = 1, limit = 20;
  std::string_view name() const override { return "SoftplusBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor scaled = saved(0) * beta;
    return {where(scaled > limit, g[0], g[0] * sigmoid(scaled))};
  }
};
struct ThresholdBackward final : Node {
  double limit = 0;
  std::string_view name() const override { return "ThresholdBackward0"; }
  TensorList apply(TensorList g) override { return {masked_fill(g[0], saved(0) <= limit, 0)}; }
};

/// As with_saved_input, for nodes with numbers of their own, which `set` fills in.
template <class N, class Set>
Tensor with_numbers(const Tensor& x, Tensor out, Set set) {
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  set(*node);
  node->save(x);
  record(out, node);
  return out;
}

}  // namespace

const Tensor& rrelu_(const Tensor& x, const RreluOptions& options) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return rrelu(t, options); });
}
const Tensor& elu_(const Tensor& x, double alpha) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return elu(t, alpha); });
}
const Tensor& celu_(const Tensor& x, double alpha) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return celu(t, alpha); });
}
const Tensor& selu_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return selu(t); });
}
const Tensor& leaky_relu_(const Tensor& x, double slope) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return leaky_relu(t, slope); });
}
const Tensor& hardtanh_(const Tensor& x, double low, double high) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardtanh(t, low, high); });
}
const Tensor& relu6_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return relu6(t); });
}
const Tensor& hardswish_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardswish(t); });
}
const Tensor& hardsigmoid_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return hardsigmoid(t); });
}
const Tensor& silu_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return silu(t); });
}
const Tensor& mish_(const Tensor& x) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return mish(t); });
}
const Tensor& threshold_(const Tensor& x, double limit, double value) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return threshold(t, limit, value); });
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  if (x.dtype() == DType::boolean) throw Error(ErrorCode::runtime, "Bool inputs not supported for hardtanh");
  if (x.dtype() == DType::u8 && low <= -1) {
    throw Error(ErrorCode::runtime, "cannot do hardtanh on an unsigned type with negative limits");
  }
  if (is_integer(x.dtype())) return clamp(x, static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
  if (low == 0 && high == 6) {
    if (Tensor out = activated_image(x, ImageActivation::relu6); out.defined()) return out;
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
  check_not_whole(x, "hardsigmoid_cpu");
  const Tensor plain = x.detach();
  return detail::with_saved_input<HardsigmoidBackward>(x, clamp(plain + 3, 0, 6) / 6);
}

Tensor hardswish(const Tensor& x) {
  check_not_whole(x, "hardswish_cpu");
  if (Tensor out = activated_image(x, ImageActivation::hardswish); out.defined()) return out;
  const Tensor plain = x.detach();
  return detail::with_saved_input<HardswishBackward>(x, plain * clamp(plain + 3, 0, 6) / 6);
}

Tensor selu(const Tensor& x) {
  check_not_whole(x, "elu_cpu");
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  return composed("EluBackward0", {x}, [](const TensorList& in) { return elu_of(in[0], kAlpha, kScale, 1); });
}

Tensor celu(const Tensor& x, double alpha) {
  check_not_whole(x, "elu_cpu");
  if (alpha == 0) throw Error(ErrorCode::runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
  return composed("CeluBackward0", {x}, [alpha](const TensorList& in) { return elu_of(in[0], alpha, 1, 1 / alpha); });
}

Tensor mish(const Tensor& x) {
  check_not_whole(x, "mish_cpu");
  if (is_complex(x.dtype())) raw::throw_unsupported("mish_cpu", raw::backend_of(x), x.dtype());
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
  check_not_whole(x, "softshrink_check");
  const Tensor plain = x.detach();
  const Tensor moved = where(plain > lambda, plain - lambda, where(plain < -lambda, plain + lambda, plain * 0));
  return shrunk<SoftshrinkBackward>(x, moved, lambda);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  check_not_whole(x, "hardshrink_cpu");
  const Tensor plain = x.detach();
  const Tensor inside = logical_and(ge(plain, -lambda), le(plain, lambda));
  return shrunk<HardshrinkBackward>(x, masked_fill(plain, inside, 0), lambda);
}

Tensor glu(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0) throw Error(ErrorCode::runtime, "glu does not support scalars because halving size must be even");
  const std::int64_t at = raw::wrap_dim(dim, x.dim()), size = x.size(at);
  if (size % 2 != 0) {
    throw Error(ErrorCode::runtime, "Halving dimension must be even, but dimension " + std::to_string(at) +
                                        " is size " + std::to_string(size));
  }
  check_not_whole(x, "glu_cpu");
  return composed("GluBackward0", {x}, [at, size](const TensorList& in) {
    return in[0].narrow(at, 0, size / 2) * sigmoid(in[0].narrow(at, size / 2, size / 2));
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight}); to) return prelu(to(x), to(weight));
  if (x.dtype() != weight.dtype()) {
    throw Error(ErrorCode::runtime, std::string("prelu: Type promoting not supported. Got ") +
                                        scalar_type_name(x.dtype()) + " and " + scalar_type_name(weight.dtype()));
  }
  check_not_whole(x, "prelu_cpu");
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
  check_not_whole(x, "rrelu_with_noise_out_cpu");
  const Tensor slope = empty_like(x.detach());
  slope.fill_(1);
  const Tensor drawn = empty_like(slope);
  uniform_(drawn, o.lower, o.upper);
  const Tensor factor = where(x.detach() <= 0, drawn, slope);
  return composed("RreluWithNoiseBackward0", {x}, [factor](const TensorList& in) { return in[0] * factor; });
}

Tensor silu(const Tensor& x) {
  check_not_whole(x, "silu_cpu");
  if (!needs_grad(x)) {
    if (Tensor out = blocked::try_activate(x, ImageActivation::silu); out.defined()) return out;
  }
  return with_saved_input<SiluBackward>(x, raw::unary(UnaryOp::silu, x));
}
Tensor log_sigmoid(const Tensor& x) {
  check_not_whole(x, "log_sigmoid_cpu");
  return with_saved_input<LogSigmoidBackward>(x, raw::unary(UnaryOp::log_sigmoid, x));
}

Tensor relu(const Tensor& x) {
  return with_saved_output<ReluBackward>(x, raw::unary(UnaryOp::relu, x));
}

Tensor gelu(const Tensor& x, GeluForm form) {
  check_not_whole(x, "GeluKernelImpl");
  if (form == GeluForm::tanh) return with_saved_input<GeluTanhBackward>(x, raw::unary(UnaryOp::gelu_tanh, x));
  return with_saved_input<GeluBackward>(x, raw::unary(UnaryOp::gelu, x));
}

Tensor leaky_relu(const Tensor& x, double slope) {
  check_not_whole(x, "leaky_relu_cpu");
  return with_numbers<LeakyReluBackward>(x, raw::unary(UnaryOp::leaky_relu, x, {slope, 0, 0}),
                                         [&](LeakyReluBackward& node) { node.slope = slope; });
}

Tensor elu(const Tensor& x, double alpha) {
  check_not_whole(x, "elu_cpu");
  return with_numbers<EluBackward>(x, raw::unary(UnaryOp::elu, x, {alpha, 1, 1}),
                                   [&](EluBackward& node) { node.alpha = alpha; });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return softplus(to(x), beta, threshold);
  check_not_whole(x, "softplus_cpu");
  return with_numbers<SoftplusBackward>(x, raw::unary(UnaryOp::softplus, x, {beta, threshold, 0}),
                                        [&](SoftplusBackward& node) {
                                          node.beta = beta;
                                          node.limit = threshold;
                                        });
}

Tensor threshold(const Tensor& x, double limit, double value) {
  if (x.dtype() == DType::boolean) raw::throw_unsupported("threshold_cpu", raw::backend_of(x), x.dtype());
  if (is_integer(x.dtype())) {
    raw::check_fits(limit, x.dtype());
    raw::check_fits(value, x.dtype());
    return masked_fill(x, x <= std::trunc(limit), std::trunc(value));
  }
  return with_numbers<ThresholdBackward>(x, raw::unary(UnaryOp::threshold, x, {limit, value, 0}),
                                         [&](ThresholdBackward& node) { node.limit = limit; });
}

}  // namespace core

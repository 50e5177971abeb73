// Differentiable operations on one tensor, element by element.
#include <cmath>
#include <numbers>

#include "libcore/autograd/function_nodes.h"
#include "libcore/tensor/held_image.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core {
namespace {

using detail::with_node;
using detail::with_saved_input;
using detail::with_saved_output;

CORE_NODE(NegBackward, "NegBackward0", return {-g[0]};)
CORE_NODE(AbsBackward, "AbsBackward0", return {g[0] * sign(saved(0))};)
CORE_NODE(SqrtBackward, "SqrtBackward0", return {g[0] / (saved(0) * 2)};)
CORE_NODE(RsqrtBackward, "RsqrtBackward0", return {g[0] * -0.5 * pow(saved(0), 3)};)
CORE_NODE(ExpBackward, "ExpBackward0", return {g[0] * saved(0)};)
CORE_NODE(Exp2Backward, "Exp2Backward0", return {g[0] * saved(0) * std::numbers::ln2};)
CORE_NODE(Expm1Backward, "Expm1Backward0", return {g[0] * (saved(0) + 1)};)
CORE_NODE(LogBackward, "LogBackward0", return {g[0] / saved(0)};)
CORE_NODE(Log2Backward, "Log2Backward0", return {g[0] / (saved(0) * std::numbers::ln2)};)
CORE_NODE(Log10Backward, "Log10Backward0", return {g[0] / (saved(0) * std::numbers::ln10)};)
CORE_NODE(Log1pBackward, "Log1PBackward0", return {g[0] / (saved(0) + 1)};)
CORE_NODE(SinBackward, "SinBackward0", return {g[0] * cos(saved(0))};)
CORE_NODE(CosBackward, "CosBackward0", return {g[0] * -sin(saved(0))};)
CORE_NODE(TanBackward, "TanBackward0", return {g[0] * (square(saved(0)) + 1)};)
CORE_NODE(AsinBackward, "AsinBackward0", return {g[0] * rsqrt(1 - square(saved(0)))};)
CORE_NODE(AcosBackward, "AcosBackward0", return {g[0] * -rsqrt(1 - square(saved(0)))};)
CORE_NODE(AtanBackward, "AtanBackward0", return {g[0] / (square(saved(0)) + 1)};)
CORE_NODE(SinhBackward, "SinhBackward0", return {g[0] * cosh(saved(0))};)
CORE_NODE(CoshBackward, "CoshBackward0", return {g[0] * sinh(saved(0))};)
CORE_NODE(ErfBackward, "ErfBackward0", return {g[0] * (exp(-square(saved(0))) * (2 / std::sqrt(std::numbers::pi)))};)
CORE_NODE(ErfinvBackward, "ErfinvBackward0",
          return {g[0] * (exp(square(saved(0))) * (std::sqrt(std::numbers::pi) / 2))};)
CORE_NODE(LgammaBackward, "LgammaBackward0", return {g[0] * digamma(saved(0))};)
CORE_NODE(DigammaBackward, "DigammaBackward0", return {g[0] * trigamma(saved(0))};)
CORE_NODE(ReciprocalBackward, "ReciprocalBackward0", return {-g[0] * (saved(0) * saved(0))};)
CORE_NODE(SquareBackward, "PowBackward0", return {g[0] * (saved(0) * 2)};)
CORE_NODE(FracBackward, "FracBackward0", return {g[0]};)
CORE_NODE(FloorBackward, "FloorBackward0", return {zeros_like(g[0])};)
CORE_NODE(CeilBackward, "CeilBackward0", return {zeros_like(g[0])};)
CORE_NODE(RoundBackward, "RoundBackward0", return {zeros_like(g[0])};)
CORE_NODE(TruncBackward, "TruncBackward0", return {zeros_like(g[0])};)
CORE_NODE(SignBackward, "SignBackward0", return {zeros_like(g[0])};)
CORE_NODE(NanToNumBackward, "NanToNumBackward0", return {g[0] * detail::mask_as(isfinite(saved(0)), g[0])};)

// The hot ones have a fused slot; with a second derivative wanted, they are written out.
CORE_NODE(TanhBackward, "TanhBackward0", if (is_grad_enabled()) return {g[0] * (1 - square(saved(0)))};
          return {raw::binary(BinaryOp::tanh_backward, g[0], saved(0))};)
CORE_NODE(SigmoidBackward, "SigmoidBackward0", if (is_grad_enabled()) return {g[0] * ((1 - saved(0)) * saved(0))};
          return {raw::binary(BinaryOp::sigmoid_backward, g[0], saved(0))};)
CORE_NODE(ReluBackward, "ReluBackward0", if (is_grad_enabled()) return {masked_fill(g[0], saved(0) <= 0, 0)};
          return {raw::binary(BinaryOp::relu_backward, g[0], saved(0))};)

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
    return {where(x > 0, g[0], g[0] * (exp(x) * alpha))};
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
  TensorList apply(TensorList g) override { return {g[0] * detail::mask_as(saved(0) > limit, g[0])}; }
};

}  // namespace

Tensor neg(const Tensor& x) {
  return with_node<NegBackward>(x, raw::unary(UnaryOp::neg, x));
}
Tensor frac(const Tensor& x) {
  return with_node<FracBackward>(x, raw::unary(UnaryOp::frac, x));
}
Tensor floor(const Tensor& x) {
  return with_node<FloorBackward>(x, raw::unary(UnaryOp::floor, x));
}
Tensor ceil(const Tensor& x) {
  return with_node<CeilBackward>(x, raw::unary(UnaryOp::ceil, x));
}
Tensor round(const Tensor& x) {
  return with_node<RoundBackward>(x, raw::unary(UnaryOp::round, x));
}
Tensor trunc(const Tensor& x) {
  return with_node<TruncBackward>(x, raw::unary(UnaryOp::trunc, x));
}
Tensor sign(const Tensor& x) {
  return with_node<SignBackward>(x, raw::unary(UnaryOp::sign, x));
}
Tensor abs(const Tensor& x) {
  return with_saved_input<AbsBackward>(x, raw::unary(UnaryOp::abs, x));
}
Tensor log(const Tensor& x) {
  return with_saved_input<LogBackward>(x, raw::unary(UnaryOp::log, x));
}
Tensor log2(const Tensor& x) {
  return with_saved_input<Log2Backward>(x, raw::unary(UnaryOp::log2, x));
}
Tensor log10(const Tensor& x) {
  return with_saved_input<Log10Backward>(x, raw::unary(UnaryOp::log10, x));
}
Tensor log1p(const Tensor& x) {
  return with_saved_input<Log1pBackward>(x, raw::unary(UnaryOp::log1p, x));
}
Tensor sin(const Tensor& x) {
  return with_saved_input<SinBackward>(x, raw::unary(UnaryOp::sin, x));
}
Tensor cos(const Tensor& x) {
  return with_saved_input<CosBackward>(x, raw::unary(UnaryOp::cos, x));
}
Tensor asin(const Tensor& x) {
  return with_saved_input<AsinBackward>(x, raw::unary(UnaryOp::asin, x));
}
Tensor acos(const Tensor& x) {
  return with_saved_input<AcosBackward>(x, raw::unary(UnaryOp::acos, x));
}
Tensor atan(const Tensor& x) {
  return with_saved_input<AtanBackward>(x, raw::unary(UnaryOp::atan, x));
}
Tensor sinh(const Tensor& x) {
  return with_saved_input<SinhBackward>(x, raw::unary(UnaryOp::sinh, x));
}
Tensor cosh(const Tensor& x) {
  return with_saved_input<CoshBackward>(x, raw::unary(UnaryOp::cosh, x));
}
Tensor erf(const Tensor& x) {
  return with_saved_input<ErfBackward>(x, raw::unary(UnaryOp::erf, x));
}
Tensor lgamma(const Tensor& x) {
  return with_saved_input<LgammaBackward>(x, raw::unary(UnaryOp::lgamma, x));
}
Tensor digamma(const Tensor& x) {
  return with_saved_input<DigammaBackward>(x, raw::unary(UnaryOp::digamma, x));
}
Tensor square(const Tensor& x) {
  if (x.dtype() == DType::boolean) return square(x.to(DType::i64));
  return with_saved_input<SquareBackward>(x, raw::unary(UnaryOp::square, x));
}
Tensor silu(const Tensor& x) {
  if (!needs_grad(x)) {
    if (Tensor held = held::try_activate(x, ImageActivation::silu); held.defined()) return held;
  }
  return with_saved_input<SiluBackward>(x, raw::unary(UnaryOp::silu, x));
}
Tensor log_sigmoid(const Tensor& x) {
  return with_saved_input<LogSigmoidBackward>(x, raw::unary(UnaryOp::log_sigmoid, x));
}
Tensor sqrt(const Tensor& x) {
  return with_saved_output<SqrtBackward>(x, raw::unary(UnaryOp::sqrt, x));
}
Tensor rsqrt(const Tensor& x) {
  return with_saved_output<RsqrtBackward>(x, raw::unary(UnaryOp::rsqrt, x));
}
Tensor exp(const Tensor& x) {
  return with_saved_output<ExpBackward>(x, raw::unary(UnaryOp::exp, x));
}
Tensor exp2(const Tensor& x) {
  return with_saved_output<Exp2Backward>(x, raw::unary(UnaryOp::exp2, x));
}
Tensor expm1(const Tensor& x) {
  return with_saved_output<Expm1Backward>(x, raw::unary(UnaryOp::expm1, x));
}
Tensor tan(const Tensor& x) {
  return with_saved_output<TanBackward>(x, raw::unary(UnaryOp::tan, x));
}
Tensor tanh(const Tensor& x) {
  return with_saved_output<TanhBackward>(x, raw::unary(UnaryOp::tanh, x));
}
Tensor sigmoid(const Tensor& x) {
  return with_saved_output<SigmoidBackward>(x, raw::unary(UnaryOp::sigmoid, x));
}
Tensor relu(const Tensor& x) {
  return with_saved_output<ReluBackward>(x, raw::unary(UnaryOp::relu, x));
}
Tensor erfinv(const Tensor& x) {
  return with_saved_output<ErfinvBackward>(x, raw::unary(UnaryOp::erfinv, x));
}
Tensor reciprocal(const Tensor& x) {
  return with_saved_output<ReciprocalBackward>(x, raw::unary(UnaryOp::reciprocal, x));
}
Tensor bitwise_not(const Tensor& x) {
  return raw::unary(UnaryOp::bitwise_not, x);
}

Tensor gelu(const Tensor& x, GeluForm form) {
  if (form == GeluForm::tanh) return with_saved_input<GeluTanhBackward>(x, raw::unary(UnaryOp::gelu_tanh, x));
  return with_saved_input<GeluBackward>(x, raw::unary(UnaryOp::gelu, x));
}

namespace {

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

Tensor leaky_relu(const Tensor& x, double slope) {
  return with_numbers<LeakyReluBackward>(x, raw::unary(UnaryOp::leaky_relu, x, {slope, 0, 0}),
                                         [&](LeakyReluBackward& node) { node.slope = slope; });
}

Tensor elu(const Tensor& x, double alpha) {
  return with_numbers<EluBackward>(x, raw::unary(UnaryOp::elu, x, {alpha, 1, 1}),
                                   [&](EluBackward& node) { node.alpha = alpha; });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return with_numbers<SoftplusBackward>(x, raw::unary(UnaryOp::softplus, x, {beta, threshold, 0}),
                                        [&](SoftplusBackward& node) {
                                          node.beta = beta;
                                          node.limit = threshold;
                                        });
}

Tensor threshold(const Tensor& x, double limit, double value) {
  return with_numbers<ThresholdBackward>(x, raw::unary(UnaryOp::threshold, x, {limit, value, 0}),
                                         [&](ThresholdBackward& node) { node.limit = limit; });
}

namespace {

/// What infinity becomes.
double largest(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::max();
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 3.3895313892515355e38;
  return std::numeric_limits<float>::max();
}

}  // namespace

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  const double top = largest(x.dtype());
  return with_saved_input<NanToNumBackward>(
      x, raw::unary(UnaryOp::nan_to_num, x, {nan, posinf.value_or(top), neginf.value_or(-top)}));
}

}  // namespace core

// Functions of one tensor that have a kernel.
#include "libcore/ops/pointwise.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::with_node;
using detail::with_saved_input;
using detail::with_saved_output;

CORE_NODE(NegBackward, "NegBackward0", return {-g[0]};)
struct AbsBackward final : Node, detail::FollowsConvention {
  std::string_view name() const override { return "AbsBackward0"; }
  TensorList apply(TensorList g) override { return {g[0] * sgn(saved(0))}; }
};
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

/// What infinity becomes.
double largest(DType dtype) {
  if (parts_type(dtype) == DType::f64) return std::numeric_limits<double>::max();
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 3.3895313892515355e38;
  return std::numeric_limits<float>::max();
}

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
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log(to(x));
  return with_saved_input<LogBackward>(x, raw::unary(UnaryOp::log, x));
}
Tensor log2(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log2(to(x));
  return with_saved_input<Log2Backward>(x, raw::unary(UnaryOp::log2, x));
}
Tensor log10(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log10(to(x));
  return with_saved_input<Log10Backward>(x, raw::unary(UnaryOp::log10, x));
}
Tensor log1p(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log1p(to(x));
  return with_saved_input<Log1pBackward>(x, raw::unary(UnaryOp::log1p, x));
}
Tensor sin(const Tensor& x) {
  return with_saved_input<SinBackward>(x, raw::unary(UnaryOp::sin, x));
}
Tensor cos(const Tensor& x) {
  return with_saved_input<CosBackward>(x, raw::unary(UnaryOp::cos, x));
}
Tensor asin(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return asin(to(x));
  return with_saved_input<AsinBackward>(x, raw::unary(UnaryOp::asin, x));
}
Tensor acos(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return acos(to(x));
  return with_saved_input<AcosBackward>(x, raw::unary(UnaryOp::acos, x));
}
Tensor atan(const Tensor& x) {
  return with_saved_input<AtanBackward>(x, raw::unary(UnaryOp::atan, x));
}
Tensor sinh(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return sinh(to(x));
  return with_saved_input<SinhBackward>(x, raw::unary(UnaryOp::sinh, x));
}
Tensor cosh(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return cosh(to(x));
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

Tensor sqrt(const Tensor& x) {
  return with_saved_output<SqrtBackward>(x, raw::unary(UnaryOp::sqrt, x));
}
Tensor rsqrt(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return rsqrt(to(x));
  return with_saved_output<RsqrtBackward>(x, raw::unary(UnaryOp::rsqrt, x));
}
Tensor exp(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return exp(to(x));
  return with_saved_output<ExpBackward>(x, raw::unary(UnaryOp::exp, x));
}
Tensor exp2(const Tensor& x) {
  return with_saved_output<Exp2Backward>(x, raw::unary(UnaryOp::exp2, x));
}
Tensor expm1(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return expm1(to(x));
  return with_saved_output<Expm1Backward>(x, raw::unary(UnaryOp::expm1, x));
}
Tensor tan(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return tan(to(x));
  return with_saved_output<TanBackward>(x, raw::unary(UnaryOp::tan, x));
}
Tensor tanh(const Tensor& x) {
  return with_saved_output<TanhBackward>(x, raw::unary(UnaryOp::tanh, x));
}
Tensor sigmoid(const Tensor& x) {
  return with_saved_output<SigmoidBackward>(x, raw::unary(UnaryOp::sigmoid, x));
}

Tensor erfinv(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return erfinv(to(x));
  return with_saved_output<ErfinvBackward>(x, raw::unary(UnaryOp::erfinv, x));
}
Tensor reciprocal(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return reciprocal(to(x));
  return with_saved_output<ReciprocalBackward>(x, raw::unary(UnaryOp::reciprocal, x));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_inexact(x.dtype())) return detail::with_saved_input<NanToNumBackward>(x, raw::clone(x));
  const double top = largest(x.dtype());
  return with_saved_input<NanToNumBackward>(
      x, raw::unary(UnaryOp::nan_to_num, x, {nan, posinf.value_or(top), neginf.value_or(-top)}));
}

}  // namespace core

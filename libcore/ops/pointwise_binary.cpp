// Functions of two tensors beyond arithmetic.
#include "libcore/ops/pointwise.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/half.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::float_result;
using core::detail::integers;
using core::detail::Whole;
using core::detail::with_two;
using detail::host_binary;

CORE_NODE(NextafterBackward, "NextafterBackward0", Tensor a = saved(0); Tensor b = saved(1);
          return {masked_fill(g[0], a == b, 0), zeros_like(b)};)
CORE_NODE(Atan2Backward, "Atan2Backward0", Tensor a = saved(0); Tensor b = saved(1); Tensor square = a * a + b * b;
          Tensor at_zero = square == 0;
          Tensor scale = masked_fill(reciprocal(masked_fill(square, at_zero, 1)), at_zero, 0);
          return {wants(0) ? g[0] * b * scale : Tensor(), wants(1) ? g[0] * -a* scale : Tensor()};)

CORE_NODE(LogaddexpBackward, "LogaddexpBackward0", Tensor apart = saved(1) - saved(0);
          return {wants(0) ? g[0] * sigmoid(-apart) : Tensor(), wants(1) ? g[0] * sigmoid(apart) : Tensor()};)
CORE_NODE(Logaddexp2Backward, "Logaddexp2Backward0", Tensor apart = (saved(1) - saved(0)) * std::numbers::ln2;
          return {wants(0) ? g[0] * sigmoid(-apart) : Tensor(), wants(1) ? g[0] * sigmoid(apart) : Tensor()};)
CORE_NODE(HypotBackward, "HypotBackward0", Tensor root = saved(2);
          return {wants(0) ? g[0] * (saved(0) / root) : Tensor(), wants(1) ? g[0] * (saved(1) / root) : Tensor()};)
CORE_NODE(CopysignBackward, "CopysignBackward0", Tensor a = saved(0);
          Tensor ratio = masked_fill(saved(1) / a, a == 0, 0); return {g[0] * ratio, zeros_like(g[0])};)
CORE_NODE(HeavisideBackward, "NotImplemented",
          throw Error(ErrorCode::runtime, "derivative for aten::heaviside is not implemented");)
template <bool kMax>
struct FmaxBackward final : Node {
  std::string_view name() const override { return kMax ? "FmaxBackward0" : "FminBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), b = saved(1), half = g[0] / 2, equal = a == b;
    const Tensor first = logical_or(kMax ? a >= b : a <= b, isnan(b));
    return {where(equal, half, masked_fill(g[0], logical_not(first), 0)),
            where(equal, half, masked_fill(g[0], first, 0))};
  }
};
CORE_NODE(XlogyBackward, "XlogyBackward0", Tensor a = saved(0); Tensor b = saved(1);
          return {wants(0) ? g[0] * masked_fill(log(b), logical_and(a == 0, b <= 0), 0) : Tensor(),
                  wants(1) ? g[0] * (a / b) : Tensor()};)

/// log_b(b^x + b^y) with the larger one taken out, by functions to that base.
template <class Exp, class Log1p>
double log_of_sum(double x, double y, Exp exp, Log1p log1p) {
  if (std::isinf(x) && x == y) return x;
  return std::fmax(x, y) + (std::isnan(x + y) ? x + y : log1p(exp(-std::abs(x - y))));
}

void check_floats(const Tensor& a, const Tensor& b, const char* kernel) {
  const DType common = result_type(a, b);
  if (!is_floating(common)) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"") + kernel + "\" not implemented for '" + scalar_type_name(common) + "'");
  }
}

/// Numbers as they are: int64 would lose nothing, float64 would.
template <bool kMax>
Tensor number_extreme(const Tensor& a, const Tensor& b) {
  const Tensor out = raw::binary(kMax ? BinaryOp::maximum : BinaryOp::minimum, a, b);
  if (!is_floating(out.dtype())) return out;
  const Tensor wide_a = raw::cast(a, out.dtype()), wide_b = raw::cast(b, out.dtype());
  return raw::where(isnan(wide_a), wide_b, raw::where(isnan(wide_b), wide_a, out));
}

/// The 16-bit float behind `from` on the way to `to`, by its bits: in the order of size but for the sign.
float next_half(DType dtype, float from, float to) {
  if (std::isnan(from) || std::isnan(to)) return from + to;
  if (from == to) return to;
  const bool is_f16 = dtype == DType::f16;
  const auto value = [&](std::uint16_t bits) { return is_f16 ? f16_to_f32(bits) : bf16_to_f32(bits); };
  if (from == 0) return std::copysign(value(1), to);
  const std::uint16_t bits = is_f16 ? f32_to_f16(from) : f32_to_bf16(from);
  const bool grows = (from < to) == (from > 0);
  return value(static_cast<std::uint16_t>(grows ? bits + 1 : bits - 1));
}

}  // namespace

Tensor atan2(const Tensor& a, const Tensor& b) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b}); to) return atan2(to(a), to(b));
  return with_two<Atan2Backward>(a, b, raw::binary(BinaryOp::atan2, a, b));
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now()) return core::detail::traced("logaddexp", {a, b}, {}, [&] { return logaddexp(a, b); });
  check_floats(a, b, "logaddexp_cpu");
  const auto function = [](double x, double y) {
    return log_of_sum(
        x, y, [](double v) { return std::exp(v); }, [](double v) { return std::log1p(v); });
  };
  return detail::with_two<LogaddexpBackward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
}
Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  check_floats(a, b, "logaddexp2_cpu");
  const auto function = [](double x, double y) {
    return log_of_sum(
        x, y, [](double v) { return std::exp2(v); }, [](double v) { return std::log1p(v) * std::numbers::log2e; });
  };
  return detail::with_two<Logaddexp2Backward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
}
Tensor hypot(const Tensor& a, const Tensor& b) {
  check_floats(a, b, "hypot_cpu");
  Tensor out = host_binary<double>(a, b, float_result(a, b), [](double x, double y) { return std::hypot(x, y); });
  if (!needs_grad(a, b)) return out;
  auto node = make_node<HypotBackward>(a, b);
  node->save(a);
  node->save(b);
  record(out, node);
  node->save_output(out);
  return out;
}
Tensor copysign(const Tensor& a, const Tensor& b) {
  Tensor out = host_binary<double>(a, b, float_result(a, b), [](double x, double y) { return std::copysign(x, y); });
  if (!needs_grad(a, b)) return out;
  auto node = make_node<CopysignBackward>(a, b);
  node->save(a);
  record(out, node);
  node->save_output(out);
  return out;
}
Tensor copysign(const Tensor& a, Scalar b) {
  return copysign(a, raw::wrapped(b, raw::backend_of(a)));
}
Tensor heaviside(const Tensor& x, const Tensor& values) {
  if (x.dtype() != values.dtype()) fail("heaviside is not yet implemented for tensors with different dtypes.");
  Tensor out = host_binary<double>(x, values, x.dtype(), [](double v, double at_zero) {
    return v == 0 ? at_zero : v < 0 ? 0.0 : 1.0;
  });
  if (needs_grad(x, values)) record(out, make_node<HeavisideBackward>(x, values));
  return out;
}

Tensor fmax(const Tensor& a, const Tensor& b) {
  return detail::with_two<FmaxBackward<true>>(a, b, number_extreme<true>(a, b));
}
Tensor fmin(const Tensor& a, const Tensor& b) {
  return detail::with_two<FmaxBackward<false>>(a, b, number_extreme<false>(a, b));
}
Tensor xlogy(const Tensor& a, const Tensor& b) {
  const auto function = [](double x, double y) { return std::isnan(y) ? y : x == 0 ? 0 : x * std::log(y); };
  return detail::with_two<XlogyBackward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
}
Tensor ldexp(const Tensor& a, const Tensor& b) {
  return composed("LdexpBackward0", {a, b}, [](const TensorList& in) { return in[0] * exp2(in[1]); });
}
Tensor nextafter(const Tensor& a, const Tensor& b) {
  const DType common = result_type(a, b);
  const bool is_half = common == DType::f16 || common == DType::bf16;
  if (!is_half && common != DType::f32 && common != DType::f64) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"nextafter_cpu\" not implemented for '") + scalar_type_name(common) + "'");
  }
  Tensor out = host_binary<double>(a, b, common, [=](double x, double y) -> double {
    if (common == DType::f64) return std::nextafter(x, y);
    const auto from = static_cast<float>(x), to = static_cast<float>(y);
    return is_half ? next_half(common, from, to) : std::nextafterf(from, to);
  });
  return needs_grad(a, b) ? detail::with_two<NextafterBackward>(a, b, out) : out;
}
Tensor float_power(const Tensor& base, const Tensor& exponent) {
  const bool of_complex = is_complex(base.dtype()) || is_complex(exponent.dtype());
  const DType wide = of_complex ? DType::c128 : DType::f64;
  return pow(base.to(wide), exponent.to(wide));
}
Tensor float_power(const Tensor& base, Scalar exponent) {
  return pow(base.to(is_complex(base.dtype()) ? DType::c128 : DType::f64), exponent.to_double());
}

Tensor gcd(const Tensor& a, const Tensor& b) {
  return integers(a, b, "gcd_cpu", [](Whole x, Whole y) { return std::gcd(x, y); });
}
Tensor lcm(const Tensor& a, const Tensor& b) {
  return integers(a, b, "lcm_cpu", [](Whole x, Whole y) { return x == 0 && y == 0 ? 0 : std::lcm(x, y); });
}

}  // namespace core

// Functions of one tensor made of others or computed on the host.
#include "libcore/ops/pointwise.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/special_math.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using detail::host_unary;
using detail::with_node;
using detail::with_saved_input;
using std::numbers::pi;

CORE_NODE(AsinhBackward, "AsinhBackward0", return {g[0] * rsqrt(square(saved(0)) + 1)};)
CORE_NODE(AcoshBackward, "AcoshBackward0", return {g[0] * rsqrt(square(saved(0)) - 1)};)
CORE_NODE(AtanhBackward, "AtanhBackward0", return {g[0] / (1 - square(saved(0)))};)
CORE_NODE(ErfcBackward, "ErfcBackward0", return {g[0] * (exp(-square(saved(0))) * (-2 / std::sqrt(pi)))};)
CORE_NODE(Deg2RadBackward, "Deg2RadBackward0", return {g[0] * (pi / 180)};)
CORE_NODE(Rad2DegBackward, "Rad2DegBackward0", return {g[0] * (180 / pi)};)
CORE_NODE(SgnBackward, "SgnBackward0", return {zeros_like(g[0])};)
/// x and y are apart from 0 where they are divided by, so that further derivatives stay finite.
/// Saved: x. Outside of the limits the gradient is 0; without limits what is no probability has none.
struct LogitBackward final : Node {
  std::optional<double> eps;
  std::string_view name() const override { return "LogitBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0), slope = g[0] / (x * (1 - x));
    return {masked_fill(slope, logical_or(x<eps.value_or(0), x> 1 - eps.value_or(0)), eps ? 0.0 : std::nan(""))};
  }
};

CORE_NODE(SincBackward, "SincBackward0", Tensor x = saved(0); Tensor at_zero = square(x) * pi == 0;
          Tensor safe = masked_fill(x, at_zero, 1); Tensor angle = safe * pi;
          Tensor slope = (cos(angle) * angle - sin(angle)) / (square(safe) * pi);
          return {g[0] * masked_fill(slope, at_zero, 0)};)
CORE_NODE(FrexpBackward, "FrexpBackward0", return {g[0] / exp2(saved(0).to(g[0].dtype()))};)
struct PolygammaBackward final : Node {
  std::int64_t n = 0;
  std::string_view name() const override { return "PolygammaBackward0"; }
  TensorList apply(TensorList g) override { return {g[0] * polygamma(n + 1, saved(0))}; }
};

/// z times i, or with `sign` -1 times -i.
Tensor by_i(const Tensor& z, int sign) {
  return z * complex_number(0, sign);
}

/// In the precision of its type, as at 2 the sine of the rounded angle is what counts.
template <class Real>
double sinc_of(double v) {
  if (v == 0) return 1;
  const Real angle = static_cast<Real>(pi) * static_cast<Real>(v);
  return std::sin(angle) / angle;
}

}  // namespace

Tensor asinh(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("asinh", {x}, {}, [&] { return asinh(x); });
  if (is_complex(x)) {
    return composed("AsinhBackward0", {x}, [](const TensorList& in) { return by_i(asin(by_i(in[0], 1)), -1); });
  }
  return with_saved_input<AsinhBackward>(x, host_unary(x, [](double v) { return std::asinh(v); }));
}
Tensor acosh(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("acosh", {x}, {}, [&] { return acosh(x); });
  if (is_complex(x)) {
    return composed("AcoshBackward0", {x},
                    [](const TensorList& in) { return log(in[0] + sqrt(in[0] + 1) * sqrt(in[0] - 1)); });
  }
  return with_saved_input<AcoshBackward>(x, host_unary(x, [](double v) { return std::acosh(v); }));
}
Tensor atanh(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("atanh", {x}, {}, [&] { return atanh(x); });
  if (is_complex(x)) {
    return composed("AtanhBackward0", {x}, [](const TensorList& in) { return by_i(atan(by_i(in[0], 1)), -1); });
  }
  return with_saved_input<AtanhBackward>(x, host_unary(x, [](double v) { return std::atanh(v); }));
}
Tensor erfc(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("erfc", {x}, {}, [&] { return erfc(x); });
  return with_saved_input<ErfcBackward>(x, host_unary(x, [](double v) { return std::erfc(v); }));
}

Tensor sinc(const Tensor& x) {
  if (is_complex(x)) {
    return composed("SincBackward0", {x}, [](const TensorList& in) {
      const Tensor at_zero = in[0].detach() == 0, angle = masked_fill(in[0], at_zero, 1) * pi;
      return masked_fill(sin(angle) / angle, at_zero, 1);
    });
  }
  const bool wide = detail::float_result(x) == DType::f64;
  return with_saved_input<SincBackward>(x, host_unary(x, wide ? sinc_of<double> : sinc_of<float>));
}
Tensor deg2rad(const Tensor& x) {
  return with_node<Deg2RadBackward>(x, host_unary(x, [](double v) { return v * (pi / 180); }));
}
Tensor rad2deg(const Tensor& x) {
  return with_node<Rad2DegBackward>(x, host_unary(x, [](double v) { return v * (180 / pi); }));
}
Tensor sgn(const Tensor& x) {
  if (x.dtype() == DType::c32) return sgn(x.to(DType::c64)).to(DType::c32);
  if (is_complex(x)) {
    return composed("SgnBackward0", {x}, [](const TensorList& in) {
      const Tensor none = in[0].detach() == 0;
      return masked_fill(in[0] / masked_fill(abs(in[0]), none, 1), none, 0);
    });
  }
  return with_node<SgnBackward>(x, raw::unary(UnaryOp::sign, x));
}

Tensor positive(const Tensor& x) {
  if (x.dtype() == DType::boolean) fail("The `+` operator, on a bool tensor is not supported.");
  return x;
}

Tensor polygamma(std::int64_t n, const Tensor& x) {
  if (n < 0) fail("polygamma(n, x) does not support negative n.");
  if (n == 0) return digamma(x);
  const double order = static_cast<double>(n);
  const double scale = (n % 2 == 0 ? -1 : 1) * std::tgamma(order + 1);
  Tensor out = host_unary(x, [&](double v) { return scale * detail::hurwitz_zeta(order + 1, v); });
  if (!needs_grad(x)) return out;
  auto node = make_node<PolygammaBackward>(x);
  node->n = n;
  node->save(x);
  record(out, node);
  return out;
}
Frexp frexp(const Tensor& x) {
  if (!is_floating(x.dtype())) fail("torch.frexp() only supports floating-point dtypes");
  const auto exponent_of = [](double v) {
    int exponent = 0;
    std::frexp(v, &exponent);
    return std::isfinite(v) ? exponent : 0;
  };
  const auto mantissa_of = [](double v) {
    int exponent = 0;
    return std::frexp(v, &exponent);
  };
  const Tensor exponent = detail::host_map<double>(x, DType::i32, exponent_of);
  Tensor mantissa = host_unary(x, mantissa_of);
  if (needs_grad(x)) {
    auto node = make_node<FrexpBackward>(x);
    node->save(exponent);
    record(mantissa, node);
  }
  return {mantissa, exponent};
}
Tensor trigamma(const Tensor& x) {
  Tensor out = raw::unary(UnaryOp::trigamma, x);
  if (!needs_grad(x)) return out;
  auto node = make_node<PolygammaBackward>(x);
  node->n = 1;
  node->save(x);
  record(out, node);
  return out;
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  if (is_complex(x.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"logit_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  Tensor out;
  {
    const NoGradGuard no_history;
    const Tensor p = is_inexact(x.dtype()) ? x : x.to(default_dtype());
    const Tensor limited = eps ? clamp(p, *eps, 1 - *eps) : masked_fill(p, logical_or(p<0, p> 1), std::nan(""));
    out = log(limited / (1 - limited));
  }
  if (!needs_grad(x)) return out;
  auto node = make_node<LogitBackward>(x);
  node->eps = eps;
  node->save(x);
  record(out, node);
  return out;
}

}  // namespace core

// Rarer differentiable operations, element by element.
#include "libcore/tensor/math_ops.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/function_nodes.h"
#include "libcore/autograd/host_math.h"
#include "libcore/base/error.h"

namespace core {
namespace {

using detail::host_binary;
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
CORE_NODE(SincBackward, "SincBackward0", Tensor x = saved(0); Tensor at_zero = x == 0;
          Tensor safe = masked_fill(x, at_zero, 1); Tensor angle = safe * pi;
          Tensor slope = (cos(angle) * angle - sin(angle)) / (square(safe) * pi);
          return {g[0] * masked_fill(slope, at_zero, 0)};)
struct PolygammaBackward final : Node {
  std::int64_t n = 0;
  std::string_view name() const override { return "PolygammaBackward0"; }
  TensorList apply(TensorList g) override { return {g[0] * polygamma(n + 1, saved(0))}; }
};

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
    const Tensor a = saved(0), b = saved(1);
    const Tensor first = logical_or(kMax ? a >= b : a <= b, isnan(b));
    return {masked_fill(g[0], logical_not(first), 0), masked_fill(g[0], first, 0)};
  }
};
CORE_NODE(XlogyBackward, "XlogyBackward0", Tensor a = saved(0); Tensor b = saved(1);
          return {wants(0) ? g[0] * masked_fill(log(b), logical_and(a == 0, b <= 0), 0) : Tensor(),
                  wants(1) ? g[0] * (a / b) : Tensor()};)

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

template <class N>
Tensor with_both(const Tensor& a, const Tensor& b, Tensor out) {
  if (!needs_grad(a, b)) return out;
  auto node = make_node<N>(a, b);
  node->save(a);
  node->save(b);
  record(out, node);
  return out;
}

DType float_result(const Tensor& a, const Tensor& b) {
  const DType common = result_type(a, b);
  return is_floating(common) ? common : default_dtype();
}

/// Hurwitz' zeta function: the sum of (q + k)^-s. Euler and Maclaurin's formula behind the first twelve terms.
double zeta(double s, double q) {
  if (s == 1) return std::numeric_limits<double>::infinity();
  if (s < 1) return std::numeric_limits<double>::quiet_NaN();
  if (q <= 0) {
    if (q == std::floor(q)) return std::numeric_limits<double>::infinity();
    if (s != std::floor(s)) return std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                   -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
  double total = 0;
  for (int k = 0; k < 12 || q < 12; ++k, q += 1) total += std::pow(q, -s);
  total += std::pow(q, 1 - s) / (s - 1) + 0.5 * std::pow(q, -s);
  double factor = s / 2 * std::pow(q, -s - 1);  // s (s+1) ... / (2j)! times a power of q
  for (int j = 0; j < 10; ++j) {
    total += kBernoulli[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / ((2.0 * j + 3) * (2.0 * j + 4)) / (q * q);
  }
  return total;
}

}  // namespace

Tensor asinh(const Tensor& x) {
  return with_saved_input<AsinhBackward>(x, host_unary(x, [](double v) { return std::asinh(v); }));
}
Tensor acosh(const Tensor& x) {
  return with_saved_input<AcoshBackward>(x, host_unary(x, [](double v) { return std::acosh(v); }));
}
Tensor atanh(const Tensor& x) {
  return with_saved_input<AtanhBackward>(x, host_unary(x, [](double v) { return std::atanh(v); }));
}
Tensor erfc(const Tensor& x) {
  return with_saved_input<ErfcBackward>(x, host_unary(x, [](double v) { return std::erfc(v); }));
}
namespace {

/// In the precision of its type, as at 2 the sine of the rounded angle is what counts.
template <class Real>
double sinc_of(double v) {
  if (v == 0) return 1;
  const Real angle = static_cast<Real>(pi) * static_cast<Real>(v);
  return std::sin(angle) / angle;
}

}  // namespace

Tensor sinc(const Tensor& x) {
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
  return with_node<SgnBackward>(x, raw::unary(UnaryOp::sign, x));
}
Tensor signbit(const Tensor& x) {
  if (!is_floating(x.dtype())) return x.dtype() == DType::boolean ? zeros_like(x) : lt(x, 0);
  return detail::host_map<double>(x, DType::boolean, [](double v) { return std::signbit(v) ? 1.0 : 0.0; });
}
Tensor positive(const Tensor& x) {
  if (x.dtype() == DType::boolean) fail("The `+` operator, on a bool tensor is not supported.");
  return x;
}
Tensor isposinf(const Tensor& x) {
  return eq(x, std::numeric_limits<double>::infinity());
}
Tensor isneginf(const Tensor& x) {
  return eq(x, -std::numeric_limits<double>::infinity());
}

Tensor polygamma(std::int64_t n, const Tensor& x) {
  if (n < 0) fail("polygamma(n, x) does not support negative n.");
  if (n == 0) return digamma(x);
  const double order = static_cast<double>(n);
  const double scale = (n % 2 == 0 ? -1 : 1) * std::tgamma(order + 1);
  Tensor out = host_unary(x, [&](double v) { return scale * zeta(order + 1, v); });
  if (!needs_grad(x)) return out;
  auto node = make_node<PolygammaBackward>(x);
  node->n = n;
  node->save(x);
  record(out, node);
  return out;
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

namespace {

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

}  // namespace

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  check_floats(a, b, "logaddexp_cpu");
  const auto function = [](double x, double y) {
    return log_of_sum(
        x, y, [](double v) { return std::exp(v); }, [](double v) { return std::log1p(v); });
  };
  return with_both<LogaddexpBackward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
}
Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  check_floats(a, b, "logaddexp2_cpu");
  const auto function = [](double x, double y) {
    return log_of_sum(
        x, y, [](double v) { return std::exp2(v); }, [](double v) { return std::log1p(v) * std::numbers::log2e; });
  };
  return with_both<Logaddexp2Backward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
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

namespace {

/// Numbers as they are: int64 would lose nothing, float64 would.
template <bool kMax>
Tensor number_extreme(const Tensor& a, const Tensor& b) {
  const Tensor out = raw::binary(kMax ? BinaryOp::maximum : BinaryOp::minimum, a, b);
  if (!is_floating(out.dtype())) return out;
  const Tensor wide_a = raw::cast(a, out.dtype()), wide_b = raw::cast(b, out.dtype());
  return raw::where(isnan(wide_a), wide_b, raw::where(isnan(wide_b), wide_a, out));
}

}  // namespace

Tensor fmax(const Tensor& a, const Tensor& b) {
  return with_both<FmaxBackward<true>>(a, b, number_extreme<true>(a, b));
}
Tensor fmin(const Tensor& a, const Tensor& b) {
  return with_both<FmaxBackward<false>>(a, b, number_extreme<false>(a, b));
}
Tensor xlogy(const Tensor& a, const Tensor& b) {
  const auto function = [](double x, double y) { return std::isnan(y) ? y : x == 0 ? 0 : x * std::log(y); };
  return with_both<XlogyBackward>(a, b, host_binary<double>(a, b, float_result(a, b), function));
}
Tensor ldexp(const Tensor& a, const Tensor& b) {
  return composed("LdexpBackward0", {a, b}, [](const TensorList& in) { return in[0] * exp2(in[1]); });
}
Tensor float_power(const Tensor& base, const Tensor& exponent) {
  return pow(base.to(DType::f64), exponent.to(DType::f64));
}
Tensor float_power(const Tensor& base, Scalar exponent) {
  return pow(base.to(DType::f64), exponent.to_double());
}

namespace {

template <class F>
Tensor integers(const Tensor& a, const Tensor& b, const char* kernel, F function) {
  const DType common = result_type(a, b);
  if (is_floating(common) || common == DType::boolean) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"") + kernel + "\" not implemented for '" + scalar_type_name(common) + "'");
  }
  return host_binary<std::int64_t>(a, b, common, function);
}

using Whole = std::int64_t;

}  // namespace

Tensor gcd(const Tensor& a, const Tensor& b) {
  return integers(a, b, "gcd_cpu", [](Whole x, Whole y) { return std::gcd(x, y); });
}
Tensor lcm(const Tensor& a, const Tensor& b) {
  return integers(a, b, "lcm_cpu", [](Whole x, Whole y) { return x == 0 && y == 0 ? 0 : std::lcm(x, y); });
}
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  const auto bits = static_cast<Whole>(bit_width(result_type(a, b)));
  return integers(a, b, "lshift_cpu", [bits](Whole x, Whole y) -> Whole {
    if (y < 0 || y >= bits) return 0;
    return static_cast<Whole>(static_cast<std::uint64_t>(x) << y);
  });
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  const auto bits = static_cast<Whole>(bit_width(result_type(a, b)));
  return integers(a, b, "rshift_cpu",
                  [bits](Whole x, Whole y) -> Whole { return y < 0 || y >= bits ? (x < 0 ? -1 : 0) : x >> y; });
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  if (a.dtype() != b.dtype()) {
    fail(std::string(scalar_type_name(a.dtype())) + " did not match " + scalar_type_name(b.dtype()));
  }
  return host_binary<double>(a, b, DType::boolean, [&](double x, double y) -> double {
    if (x == y) return 1;
    if (std::isnan(x) && std::isnan(y)) return options.equal_nan ? 1 : 0;
    if (!std::isfinite(x) || !std::isfinite(y)) return 0;
    return std::abs(x - y) <= options.atol + options.rtol * std::abs(y) ? 1 : 0;
  });
}

}  // namespace core

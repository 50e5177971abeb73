#include "libcore/ops/special.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/special_math.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::fail;
using detail::float_result;
using detail::host_binary;
using detail::host_unary;
using detail::with_saved_input;
using detail::with_two;
using std::numbers::inv_sqrtpi;
using std::numbers::pi;
using std::numbers::sqrt2;

/// Where the input does not count.
[[noreturn]] void no_derivative(const char* of) {
  fail(std::string("the derivative for '") + of + "' is not implemented.", ErrorCode::not_implemented);
}

/// exp(-x^2 / 2) / sqrt(2 pi).
Tensor normal_density(const Tensor& x) {
  return exp(square(x) * -0.5) * (inv_sqrtpi / sqrt2);
}

/// 1/2 at 0, where i1(x) / x is no number.
Tensor i1_slope(const Tensor& x) {
  const Tensor at_zero = x == 0;
  const Tensor safe = masked_fill(x, at_zero, 1);
  return masked_fill(i0(safe) - special::i1(safe) / safe, at_zero, 0.5);
}

CORE_NODE(EntrBackward, "SpecialEntrBackward0", return {g[0] * (-log(saved(0)) - 1)};)
CORE_NODE(ErfcxBackward, "SpecialErfcxBackward0",
          return {g[0] * (saved(0) * special::erfcx(saved(0)) * 2 - 2 * inv_sqrtpi)};)
CORE_NODE(NdtrBackward, "SpecialNdtrBackward0", return {g[0] * normal_density(saved(0))};)
CORE_NODE(LogNdtrBackward, "SpecialLogNdtrBackward0",
          return {g[0] / special::erfcx(saved(0) / -sqrt2) * (sqrt2 * inv_sqrtpi)};)
CORE_NODE(NdtriBackward, "SpecialNdtriBackward0",
          return {g[0] * exp(square(special::ndtri(saved(0))) * 0.5) * (sqrt2 / inv_sqrtpi)};)
CORE_NODE(Xlog1pyBackward, "SpecialXlog1PyBackward0", Tensor x = saved(0); Tensor y = saved(1);
          Tensor of_x = masked_fill(log1p(y), (x == 0) & (y <= -1), 0);
          return {sum_to(g[0] * of_x, x.sizes()), sum_to(g[0] * x / (y + 1), y.sizes())};)
CORE_NODE(I0Backward, "I0Backward0", return {g[0] * special::i1(saved(0))};)
CORE_NODE(ModifiedBesselI0Backward, "SpecialModifiedBesselI0Backward0", return {g[0] * special::i1(saved(0))};)
CORE_NODE(ModifiedBesselI1Backward, "SpecialModifiedBesselI1Backward0", return {g[0] * i1_slope(saved(0))};)
CORE_NODE(I0eBackward, "SpecialI0EBackward0",
          return {g[0] * (special::i1e(saved(0)) - sgn(saved(0)) * special::i0e(saved(0)))};)
CORE_NODE(I1Backward, "SpecialI1Backward0", return {g[0] * i1_slope(saved(0))};)
CORE_NODE(I1eBackward, "SpecialI1EBackward0", Tensor x = saved(0); Tensor at_zero = x == 0;
          Tensor safe = masked_fill(x, at_zero, 1);
          Tensor slope = special::i0e(safe) - special::i1e(safe) * (sgn(safe) + reciprocal(safe));
          return {g[0] * masked_fill(slope, at_zero, 0.5)};)

CORE_NODE(BesselJ0Backward, "SpecialBesselJ0Backward0", return {g[0] * -special::bessel_j1(saved(0))};)
CORE_NODE(BesselJ1Backward, "SpecialBesselJ1Backward0",
          return {g[0] * (special::bessel_j0(saved(0)) - special::bessel_j1(saved(0)) / saved(0))};)
CORE_NODE(BesselY0Backward, "SpecialBesselY0Backward0", return {g[0] * -special::bessel_y1(saved(0))};)
CORE_NODE(BesselY1Backward, "SpecialBesselY1Backward0",
          return {g[0] * (special::bessel_y0(saved(0)) - special::bessel_y1(saved(0)) / saved(0))};)
CORE_NODE(ModifiedBesselK0Backward, "SpecialModifiedBesselK0Backward0",
          return {g[0] * -special::modified_bessel_k1(saved(0))};)
CORE_NODE(ModifiedBesselK1Backward, "SpecialModifiedBesselK1Backward0",
          return {g[0] * (-special::modified_bessel_k0(saved(0)) - special::modified_bessel_k1(saved(0)) / saved(0))};)

/// The slope of the lower function to x.
Tensor gamma_slope(const Tensor& a, const Tensor& x) {
  return exp(xlogy(a - 1, x) - x - lgamma(a));
}
CORE_NODE(IgammaBackward, "IgammaBackward0", if (wants(0)) no_derivative("igamma: input");
          return {Tensor(), sum_to(g[0] * gamma_slope(saved(0), saved(1)), saved(1).sizes())};)
CORE_NODE(IgammacBackward, "IgammacBackward0", if (wants(0)) no_derivative("igammac: input");
          return {Tensor(), sum_to(-g[0] * gamma_slope(saved(0), saved(1)), saved(1).sizes())};)
CORE_NODE(ZetaBackward, "SpecialZetaBackward0", if (wants(0)) no_derivative("zeta"); Tensor x = saved(0);
          return {Tensor(), sum_to(g[0] * -x * special::zeta(x + 1, saved(1)), saved(1).sizes())};)

template <class F>
Tensor of_two(const Tensor& a, const Tensor& b, F function) {
  return host_binary<double>(a, b, float_result(a, b), function);
}

double bessel_i0(double x) {
  return detail::scaled_bessel_i0(x) * std::exp(std::abs(x));
}
double bessel_i1(double x) {
  return detail::scaled_bessel_i1(x) * std::exp(std::abs(x));
}
double entr_of(double x) {
  if (std::isnan(x)) return x;
  if (x == 0) return 0;
  return x > 0 ? -x * std::log(x) : -std::numeric_limits<double>::infinity();
}
double xlog1py_of(double x, double y) {
  return x == 0 && !std::isnan(y) ? 0 : x * std::log1p(y);
}

}  // namespace

Tensor i0(const Tensor& x) {
  return with_saved_input<I0Backward>(x, host_unary(x, bessel_i0));
}
Tensor igamma(const Tensor& a, const Tensor& x) {
  return with_two<IgammaBackward>(a, x, of_two(a, x, detail::lower_gamma));
}
Tensor igammac(const Tensor& a, const Tensor& x) {
  return with_two<IgammacBackward>(a, x, of_two(a, x, detail::upper_gamma));
}
Tensor mvlgamma(const Tensor& x, std::int64_t p) {
  if (p < 1) fail("p has to be greater than or equal to 1");
  return composed("MvlgammaBackward0", {x}, [p](const TensorList& in) {
    Tensor total =
        full_like(in[0], static_cast<double>(p * (p - 1)) / 4 * std::log(pi), {.dtype = float_result(in[0])});
    for (std::int64_t j = 0; j < p; ++j) total = total + lgamma(in[0] - static_cast<double>(j) / 2);
    return total;
  });
}

namespace special {

Tensor entr(const Tensor& x) {
  return with_saved_input<EntrBackward>(x, host_unary(x, entr_of));
}
Tensor erfcx(const Tensor& x) {
  return with_saved_input<ErfcxBackward>(x, host_unary(x, detail::erfcx));
}
Tensor ndtr(const Tensor& x) {
  return with_saved_input<NdtrBackward>(x, host_unary(x, detail::normal_cdf));
}
Tensor log_ndtr(const Tensor& x) {
  return with_saved_input<LogNdtrBackward>(x, host_unary(x, detail::log_normal_cdf));
}
Tensor ndtri(const Tensor& p) {
  return with_saved_input<NdtriBackward>(p, host_unary(p, detail::inverse_normal_cdf));
}
Tensor xlog1py(const Tensor& x, const Tensor& y) {
  return with_two<Xlog1pyBackward>(x, y, of_two(x, y, xlog1py_of));
}
Tensor zeta(const Tensor& x, const Tensor& q) {
  return with_two<ZetaBackward>(x, q, of_two(x, q, detail::hurwitz_zeta));
}

Tensor gammainc(const Tensor& a, const Tensor& x) {
  return igamma(a, x);
}
Tensor gammaincc(const Tensor& a, const Tensor& x) {
  return igammac(a, x);
}
Tensor multigammaln(const Tensor& x, std::int64_t p) {
  return mvlgamma(x, p);
}

Tensor i0e(const Tensor& x) {
  return with_saved_input<I0eBackward>(x, host_unary(x, detail::scaled_bessel_i0));
}
Tensor i1(const Tensor& x) {
  return with_saved_input<I1Backward>(x, host_unary(x, bessel_i1));
}
Tensor i1e(const Tensor& x) {
  return with_saved_input<I1eBackward>(x, host_unary(x, detail::scaled_bessel_i1));
}

Tensor bessel_j0(const Tensor& x) {
  return with_saved_input<BesselJ0Backward>(x, host_unary(x, [](double v) { return ::j0(v); }));
}
Tensor bessel_j1(const Tensor& x) {
  return with_saved_input<BesselJ1Backward>(x, host_unary(x, [](double v) { return ::j1(v); }));
}
Tensor bessel_y0(const Tensor& x) {
  return with_saved_input<BesselY0Backward>(x, host_unary(x, [](double v) { return ::y0(v); }));
}
Tensor bessel_y1(const Tensor& x) {
  return with_saved_input<BesselY1Backward>(x, host_unary(x, [](double v) { return ::y1(v); }));
}
Tensor modified_bessel_i0(const Tensor& x) {
  return with_saved_input<ModifiedBesselI0Backward>(x, host_unary(x, bessel_i0));
}
Tensor modified_bessel_i1(const Tensor& x) {
  return with_saved_input<ModifiedBesselI1Backward>(x, host_unary(x, bessel_i1));
}
Tensor modified_bessel_k0(const Tensor& x) {
  return with_saved_input<ModifiedBesselK0Backward>(
      x, host_unary(x, [](double v) { return detail::scaled_bessel_k0(v) * std::exp(-v); }));
}
Tensor modified_bessel_k1(const Tensor& x) {
  return with_saved_input<ModifiedBesselK1Backward>(
      x, host_unary(x, [](double v) { return detail::scaled_bessel_k1(v) * std::exp(-v); }));
}
Tensor scaled_modified_bessel_k0(const Tensor& x) {
  return host_unary(x, detail::scaled_bessel_k0);
}
Tensor scaled_modified_bessel_k1(const Tensor& x) {
  return host_unary(x, detail::scaled_bessel_k1);
}
Tensor airy_ai(const Tensor& x) {
  const DType dtype = detail::float_result(x);
  if (is_complex(x.dtype()) || (dtype != DType::f32 && dtype != DType::f64)) {
    fail(std::string("\"airy_ai_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'",
         ErrorCode::not_implemented);
  }
  return host_unary(x, detail::airy_ai);
}
Tensor spherical_bessel_j0(const Tensor& x) {
  return host_unary(x, [](double v) { return v == 0 ? 1 : std::isinf(v) ? 0 : std::sin(v) / v; });
}

}  // namespace special
}  // namespace core

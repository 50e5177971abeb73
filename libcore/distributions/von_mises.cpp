#include "libcore/distributions/von_mises.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace core::distributions {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// coefficients[0] + y * (coefficients[1] + y * ...).
Tensor polynomial(const Tensor& y, std::span<const double> coefficients) {
  Tensor sum = y * coefficients.back() + coefficients[coefficients.size() - 2];
  for (std::size_t i = coefficients.size() - 2; i > 0; --i) sum = y * sum + coefficients[i - 1];
  return sum;
}

// Those of Abramowitz and Stegun, 9.8.1 to 9.8.4, which PyTorch takes here in place of its own Bessel functions.
constexpr double kOrder0Small[] = {1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2};
constexpr double kOrder0Large[] = {0.39894228,    0.1328592e-1, 0.225319e-2,   -0.157565e-2, 0.916281e-2,
                                   -0.2057706e-1, 0.2635537e-1, -0.1647633e-1, 0.392377e-2};
constexpr double kOrder1Small[] = {0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3};
constexpr double kOrder1Large[] = {0.39894228,   -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1,
                                   0.2282967e-1, -0.2895312e-1, 0.1787654e-1, -0.420059e-2};

Tensor large_log_bessel(const Tensor& x, std::span<const double> coefficients) {
  return x - x.log() * 0.5 + polynomial(3.75 / x, coefficients).log();
}

/// log(I_order(x)) for x > 0.
Tensor log_bessel(const Tensor& x, int order) {
  const Tensor y = (x / 3.75).square();
  const Tensor small = order == 0 ? polynomial(y, kOrder0Small) : x.abs() * polynomial(y, kOrder1Small);
  return where(x < 3.75, small.log(), large_log_bessel(x, order == 0 ? kOrder0Large : kOrder1Large));
}

/// Best and Fisher's r, of the distribution from which proposals are drawn.
Tensor proposal_r(const Tensor& kappa) {
  const Tensor tau = (kappa.pow(2) * 4 + 1).sqrt() + 1;
  const Tensor rho = (tau - (tau * 2).sqrt()) / (kappa * 2);
  return where(kappa < 1e-5, kappa.reciprocal() + kappa, (rho.pow(2) + 1) / (rho * 2));
}

Tensor modulo_turn(const Tensor& angle) {
  return remainder(angle, full({}, kTurn, {.dtype = angle.dtype(), .device = angle.device()}));
}

/// In each round all are drawn, also those that have one, as in PyTorch. Those that no draw would ever fit (checks
/// being off, of a concentration that is 0, infinite or NaN) are NaN.
Tensor draw_angles(const Tensor& kappa, const Shape& sizes) {
  const TensorOptions like{.dtype = kappa.dtype(), .device = kappa.device()};
  const Tensor r = proposal_r(kappa);
  Tensor done = logical_not(isfinite(r)).expand(sizes);
  Tensor angle = zeros(sizes, like).masked_fill(done, std::numeric_limits<double>::quiet_NaN());
  while (!done.all().item<bool>()) {
    const std::vector<Tensor> u = rand(joined({3}, sizes), {.dtype = kappa.dtype(), .device = kappa.device()}).unbind();
    const Tensor z = (u[0] * std::numbers::pi).cos();
    const Tensor f = (r * z + 1) / (r + z);
    const Tensor c = kappa * (r - f);
    const Tensor accepted = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0);
    angle = where(accepted, (u[2] - 0.5).sign() * acos(f), angle);
    done = done | accepted;
  }
  return angle;
}

}  // namespace

VonMises::VonMises(const Argument& loc, const Argument& concentration, const Options& options)
    : VonMises(broadcast_all({loc, concentration}), options) {}

VonMises::VonMises(const std::vector<Tensor>& both, const Options& options)
    : DistributionOf(both[0].sizes(), Shape(), options.validate_args), loc_(both[0]), concentration_(both[1]) {
  validate();
}

VonMises VonMises::expand(const Shape& batch_shape) const {
  VonMises result(*this);
  result.loc_ = loc_.expand(batch_shape);
  result.concentration_ = concentration_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

std::vector<Distribution::Parameter> VonMises::parameters() const {
  return {{"loc", loc_, constraints::real()}, {"concentration", concentration_, constraints::positive()}};
}

Tensor VonMises::variance() const {
  return 1 - (log_bessel(concentration_, 1) - log_bessel(concentration_, 0)).exp();
}

Tensor VonMises::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Tensor angle = draw_angles(concentration_.double_(), extended_shape(sample_shape));
  const Tensor turned = modulo_turn(angle + std::numbers::pi + loc_.double_()) - std::numbers::pi;
  return turned.to(loc_.dtype());
}

Tensor VonMises::log_prob(const Tensor& value) const {
  check_sample(value);
  return concentration_ * (value - loc_).cos() - std::log(kTurn) - log_bessel(concentration_, 0);
}

}  // namespace core::distributions

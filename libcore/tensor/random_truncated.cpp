#include <algorithm>
#include <cmath>
#include <numbers>

#include "libcore/base/warning.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

double normal_cdf(double x) {
  return (1 + std::erf(x / std::numbers::sqrt2)) / 2;
}

bool any_true(const Tensor& mask) {
  return any(mask).item<bool>();
}

/// A limit as the tensor's dtype holds it, so that values that round to it count as inside.
Scalar as_held(const Tensor& x, double limit) {
  return full({}, limit, {.dtype = x.dtype()}).item<double>();
}

/// Draws whole tensors again for the elements that lie outside: good when most values fall inside.
Tensor redraw_outside(const Tensor& x, const TruncatedNormal& s, const std::optional<Generator>& generator) {
  Scalar low = as_held(x, s.low);
  Scalar high = as_held(x, s.high);
  Tensor result = normal_(x, s.mean, s.std, generator);
  while (true) {
    Tensor outside = logical_or(lt(result, low), gt(result, high));
    if (!any_true(outside)) return result;
    result = where(outside, normal_(empty_like(result), s.mean, s.std, generator), result);
  }
}

/// log of the density at each candidate, relative to its peak in the interval.
Tensor relative_log_density(const Tensor& candidates, const TruncatedNormal& s, double log_peak) {
  return candidates.sub(s.mean).div(s.std).pow(2).mul(-0.5).sub(log_peak);
}

/// Uniform candidates, each accepted with the height of the density there: good far out in a tail.
Tensor accept_uniform(const Tensor& x, const TruncatedNormal& s, const std::optional<Generator>& generator) {
  double mode = std::max(s.low, std::min(s.mean, s.high));
  double log_peak = -0.5 * std::pow((mode - s.mean) / s.std, 2);
  auto rejected = [&](const Tensor& candidates) {
    Tensor height = log(uniform_(empty_like(x), 0, 1, generator));
    return gt(height, relative_log_density(candidates, s, log_peak));
  };
  Tensor result = uniform_(x, s.low, s.high, generator);
  Tensor pending = rejected(result);
  while (any_true(pending)) {
    Tensor candidates = uniform_(empty_like(x), s.low, s.high, generator);
    result = where(pending, candidates, result);
    Tensor again = rejected(candidates);
    pending = where(pending, again, pending);
  }
  return result;
}

}  // namespace

const Tensor& trunc_normal_(const Tensor& x, const TruncatedNormal& s, const std::optional<Generator>& generator) {
  if (x.is_meta()) return x;
  if (s.mean < s.low - 2 * s.std || s.mean > s.high + 2 * s.std) {
    warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.");
  }
  Tensor values = x.detach();
  double inside = normal_cdf((s.high - s.mean) / s.std) - normal_cdf((s.low - s.mean) / s.std);
  Tensor result = inside > 0.3 ? redraw_outside(values, s, generator) : accept_uniform(values, s, generator);
  if (!result.is_same(values)) values.copy_(result);
  return x;
}

}  // namespace core

// Quantiles.
#include "libcore/ops/reduce.h"

#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

void check_quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  if (x.numel() == 0) fail("quantile() input tensor must be non-empty");
  if (q.dim() > 1) fail("quantile() q must be a scalar or 1D tensor");
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) {
    fail("quantile() input tensor must be either float or double dtype");
  }
  if (q.dtype() != x.dtype()) fail("quantile() q tensor must be same dtype as the input tensor");
  const std::string& rule = options.interpolation;
  if (rule != "linear" && rule != "lower" && rule != "higher" && rule != "midpoint" && rule != "nearest") {
    fail("quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got " + rule);
  }
  for (const double at : q.to_vector<double>()) {
    if (!(at >= 0 && at <= 1)) fail("quantile() q values must be in the range [0, 1]");
  }
}

/// x: sorted along its last dimension; numbers: how many of each line are no NaN (float). q: one number.
Tensor quantile_of_sorted(const Tensor& sorted, const Tensor& numbers, const Tensor& q, const std::string& rule) {
  Tensor rank = q * (numbers - 1);
  if (rule == "lower") rank = floor(rank);
  if (rule == "higher") rank = ceil(rank);
  if (rule == "nearest") rank = round(rank);
  rank = clamp(rank, 0, {});
  const Tensor below = gather(sorted, -1, floor(rank).to(DType::i64));
  if (rule == "lower" || rule == "higher" || rule == "nearest") return below;
  const Tensor above = gather(sorted, -1, ceil(rank).to(DType::i64));
  if (rule == "midpoint") return lerp(below, above, 0.5);
  return lerp(below, above, rank - floor(rank));
}

Tensor quantiles(const Tensor& x, const Tensor& q, const QuantileOptions& options, bool ignore_nan) {
  check_quantile(x, q, options);
  const Tensor lines = !options.dim ? x.reshape({-1}) : x.dim() == 0 ? x.reshape({1}) : x.movedim(*options.dim, -1);
  const Tensor sorted = sort(lines, -1).values;
  const Tensor is_nan = isnan(lines.detach());
  Tensor numbers = full_like(sorted.detach().narrow(-1, 0, 1), static_cast<double>(lines.size(-1)));
  // A NaN in a line makes its quantile the largest element, which is NaN.
  const Tensor with_nan = any(is_nan, {.dims = {-1}, .keepdim = true});
  if (ignore_nan) numbers = sum(logical_not(is_nan), {.dims = {-1}, .keepdim = true}).to(x.dtype());
  std::vector<Tensor> results;
  for (const Tensor& at : q.detach().reshape({-1}).unbind()) {
    Tensor level = at.expand(numbers.sizes());
    if (!ignore_nan) level = where(with_nan, ones_like(numbers), level);
    Tensor value = quantile_of_sorted(sorted, numbers, level, options.interpolation);
    if (!options.dim) {
      value = options.keepdim ? value.reshape(Shape(static_cast<std::size_t>(x.dim()), 1)) : value.squeeze(-1);
    } else if (x.dim() == 0) {
      value = value.reshape({});
    } else {
      value = options.keepdim ? value.movedim(-1, *options.dim) : value.squeeze(-1);
    }
    results.push_back(value);
  }
  return q.dim() == 0 ? results[0] : stack(results);
}

Tensor one_level(const Tensor& x, double q) {
  if (!(q >= 0 && q <= 1)) {
    std::string text = std::to_string(q);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    fail("quantile() q must be in the range [0, 1] but got " + text);
  }
  return full({}, q, {.dtype = is_floating(x.dtype()) ? x.dtype() : default_dtype(), .device = x.device()});
}

}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x, &q}); to) return quantile(to(x), to(q), options);
  return quantiles(x, q, options, false);
}
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return quantile(to(x), q, options);
  return quantiles(x, one_level(x, q), options, false);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x, &q}); to) return nanquantile(to(x), to(q), options);
  return quantiles(x, q, options, true);
}
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return nanquantile(to(x), q, options);
  return quantiles(x, one_level(x, q), options, true);
}

}  // namespace core

// Rarer reductions and what is computed along one dimension, made of common operations.
#include <cmath>

#include <algorithm>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/function_nodes.h"
#include "libcore/base/error.h"
#include "libcore/tensor/math_ops.h"
#include "libcore/tensor/more_ops.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

}  // namespace

Tensor nansum(const Tensor& x, const ReduceOptions& options) {
  if (!is_floating(x.dtype())) return sum(x, options);
  return composed("NansumBackward0", {x}, [options](const TensorList& in) {
    return sum(masked_fill(in[0], isnan(in[0].detach()), 0), options);
  });
}

Tensor nanmean(const Tensor& x, const ReduceOptions& options) {
  if (!is_floating(x.dtype())) {
    fail("nanmean(): expected input to have floating point or complex dtype but got " +
         std::string(scalar_type_name(x.dtype())));
  }
  const Tensor count = sum(logical_not(isnan(x.detach())), {.dims = options.dims, .keepdim = options.keepdim});
  return nansum(x, options) / count;
}

Tensor count_nonzero(const Tensor& x, const Shape& dims) {
  return sum(ne(x.detach(), 0), {.dims = dims});
}

StdMean std_mean(const Tensor& x, const VarOptions& o) {
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented, "std_mean only support floating point and complex dtypes");
  }
  const TensorList both = composed_many("StdMeanBackward0", {x}, [o](const TensorList& in) {
    return TensorList{std(in[0], o), mean(in[0], {.dims = o.dims, .keepdim = o.keepdim})};
  });
  return {both[0], both[1]};
}

Tensor dist(const Tensor& a, const Tensor& b, double p) {
  return composed("DistBackward0", {a, b}, [p](const TensorList& in) { return norm(in[0] - in[1], {.p = p}); });
}

Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  if (p <= 0) fail("renorm: non-positive-norm not supported");
  if (x.dim() < 2) fail("renorm: input needs at least 2 dimensions, got " + std::to_string(x.dim()) + " dimensions");
  if (maxnorm < 0) fail("renorm: expected maxnorm to be >= 0 but got " + std::to_string(maxnorm));
  const std::int64_t kept = raw::wrap_dim(dim, x.dim());
  Shape dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  return composed("RenormBackward0", {x}, [=](const TensorList& in) {
    const Tensor length = norm(in[0], {.p = p, .dims = dims, .keepdim = true});
    const Tensor scale = reciprocal(length + 1e-7) * maxnorm;
    return in[0] * where(length.detach() > maxnorm, scale, ones_like(scale));
  });
}

namespace {

/// Log of the running sum of exp(x), each sum relative to its largest addend.
Tensor log_running_sum(const Tensor& x, std::int64_t dim) {
  const NoGradGuard no_history;
  const Tensor last = x.dim() == 0 ? raw::alias(x).reshape({1}) : raw::alias(x).movedim(dim, -1);
  std::vector<double> values = last.to_vector<double>();
  const auto length = static_cast<std::size_t>(last.size(-1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % length == 0) continue;
    const double before = values[i - 1], now = values[i];
    const double high = std::max(before, now), low = std::min(before, now);
    if (std::isnan(before) || std::isnan(now)) {
      values[i] = before + now;
    } else if (!std::isinf(high)) {
      values[i] = high + std::log1p(std::exp(low - high));
    } else {
      values[i] = high;
    }
  }
  const Tensor sums =
      from_values(std::span<const double>(values), last.sizes(), {.dtype = x.dtype(), .device = x.device()});
  return x.dim() == 0 ? sums.reshape({}) : sums.movedim(-1, dim).contiguous();
}

/// The gradient's positive and negative parts are summed apart, as logarithms.
struct LogcumsumexpBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "LogcumsumexpBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0), result = saved(1);
    const auto part = [&](const Tensor& up) {
      const Tensor sums = flip(logcumsumexp(flip(log(up) - result, {dim}), dim), {dim});
      return exp(sums + x);
    };
    if (x.dim() == 0) return {g[0]};
    const Tensor none = zeros_like(g[0].detach());
    // Only logarithms of positive numbers are taken, so that nothing infinite meets a second derivative.
    const Tensor up = where(g[0] > 0, g[0], none + kTiny), down = where(g[0] < 0, -g[0], none + kTiny);
    return {part(up) - part(down)};
  }

 private:
  static constexpr double kTiny = 1e-300;
};

}  // namespace

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"logcumsumexp_out_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  Tensor out = log_running_sum(x, d);
  if (!needs_grad(x)) return out;
  auto node = make_node<LogcumsumexpBackward>(x);
  node->dim = d;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}

Tensor cov(const Tensor& x, std::int64_t correction) {
  if (x.dim() > 2)
    fail("cov(): expected input to have two or fewer dimensions but got an input with " + std::to_string(x.dim()) +
         " dimensions");
  if (x.dtype() == DType::boolean) fail("cov(): bool dtype is not supported for input");
  const Tensor in = is_floating(x.dtype()) ? x : x.to(default_dtype());
  const Tensor rows = in.dim() < 2 ? in.reshape({1, -1}) : in;
  const Tensor centred = rows - rows.mean(Shape{1}, true);
  const double scale = static_cast<double>(std::max<std::int64_t>(0, rows.size(1) - correction));
  return (matmul(centred, centred.t()) / scale).squeeze();
}

Tensor corrcoef(const Tensor& x) {
  if (x.dim() > 2)
    fail("corrcoef(): expected input to have two or fewer dimensions but got an input with " + std::to_string(x.dim()) +
         " dimensions");
  const Tensor c = cov(x);
  if (c.dim() == 0) return c / c;
  const Tensor deviation = sqrt(c.diagonal());
  return clamp(c / deviation.unsqueeze(1) / deviation.unsqueeze(0), -1, 1);
}

Tensor diff(const Tensor& x, const DiffOptions& options) {
  if (x.dim() < 1) fail("diff expects input to be at least one-dimensional");
  if (options.n < 0) fail("order must be non-negative but got " + std::to_string(options.n));
  std::vector<Tensor> parts;
  if (options.prepend.defined()) parts.push_back(options.prepend);
  parts.push_back(x);
  if (options.append.defined()) parts.push_back(options.append);
  Tensor values = parts.size() == 1 ? x : cat(parts, options.dim);
  for (std::int64_t i = 0; i < options.n && values.size(options.dim) > 0; ++i) {
    const std::int64_t rest = values.size(options.dim) - 1;
    const Tensor later = values.narrow(options.dim, 1, rest), earlier = values.narrow(options.dim, 0, rest);
    values = values.dtype() == DType::boolean ? logical_xor(later, earlier) : later - earlier;
  }
  return values;
}

namespace {

/// Areas between neighbouring samples.
Tensor trapezoids(const Tensor& y, const TrapezoidOptions& options) {
  const std::int64_t dim = raw::wrap_dim(options.dim, y.dim());
  const std::int64_t rest = y.size(dim) - 1;
  const Tensor sums = y.narrow(dim, 1, rest) + y.narrow(dim, 0, rest);
  if (!options.x.defined()) return sums * (options.dx / 2);
  Tensor steps = diff(options.x, {.dim = options.x.dim() == 1 ? 0 : dim});
  for (std::int64_t d = dim + 1; d < y.dim() && options.x.dim() == 1; ++d) steps = steps.unsqueeze(-1);
  return sums * steps / 2;
}

/// Less than two samples have no area.
Tensor empty_area(const Tensor& y, std::int64_t dim, bool cumulative) {
  const Tensor none = y.narrow(dim, 0, 0) * 1.0;
  return cumulative ? none : none.sum(Shape{dim});
}

}  // namespace

Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  if (y.size(options.dim) < 2) return empty_area(y, options.dim, false);
  return trapezoids(y, options).sum(Shape{options.dim});
}
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  if (y.size(options.dim) < 2) return empty_area(y, options.dim, true);
  return cumsum(trapezoids(y, options), options.dim);
}

}  // namespace core

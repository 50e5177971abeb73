#include "libcore/ops/scan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/picked_places.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::picked;
using core::detail::places;
using detail::in_place;

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

template <bool kMax>
ValuesIndices running(const char* printed, const Tensor& x, std::int64_t dim) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  const Tensor at = places(x, d, {}, [](auto values, std::span<std::int64_t> out) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = values[i], so_far = values[best];
      const bool better = kMax ? value >= so_far : value <= so_far;
      if (value != value || (so_far == so_far && better)) best = i;  // NaN wins, the last one of several
      out[i] = static_cast<std::int64_t>(best);
    }
  });
  return picked(printed, x, at, d, true);
}

struct CumsumBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "CumsumBackward0"; }
  TensorList apply(TensorList g) override {
    return {g[0].dim() == 0 ? g[0] : flip(cumsum(flip(g[0], {dim}), dim), {dim})};
  }
};
struct CumprodBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "CumprodBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    if (x.dim() == 0) return {g[0]};
    if (!any(x == 0).item().to_bool()) {
      return {flip(cumsum(flip(g[0] * cumprod(x, dim), {dim}), dim), {dim}) / x};
    }
    std::vector<Tensor> parts;  // element by element: no division
    for (std::int64_t i = 0; i < x.size(dim); ++i) {
      Tensor without = cat({x.narrow(dim, 0, i), ones_like(x.narrow(dim, i, 1)), x.slice(dim, i + 1)}, dim);
      Tensor products = cumprod(without, dim).slice(dim, i);
      parts.push_back(sum(g[0].slice(dim, i) * products, {.dims = {dim}, .keepdim = true}));
    }
    return {cat(parts, dim)};
  }
};

Tensor summing_input(const Tensor& x, std::optional<DType> dtype) {
  if (dtype) return x.to(*dtype);
  return is_inexact(x.dtype()) ? x : x.to(DType::i64);
}

/// Narrow integers as int64, which ends in the same bits.
Tensor scanned(ScanOp op, const Tensor& x, std::int64_t dim) {
  if (is_inexact(x.dtype())) return raw::scan(op, x, dim);
  return raw::cast(raw::scan(op, raw::cast(x, DType::i64), dim), x.dtype());
}

}  // namespace

const Tensor& cumsum_(const Tensor& x, std::int64_t dim) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return cumsum(t, dim, x.dtype()); });
}
const Tensor& cumprod_(const Tensor& x, std::int64_t dim) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return cumprod(t, dim, x.dtype()); });
}

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  if (core::detail::traced_now())
    return core::detail::traced("logcumsumexp", {x}, {{"dim", dim}}, [&] { return logcumsumexp(x, dim); });
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

Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  if (y.size(options.dim) < 2) return empty_area(y, options.dim, false);
  return trapezoids(y, options).sum(Shape{options.dim});
}
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  if (y.size(options.dim) < 2) return empty_area(y, options.dim, true);
  return cumsum(trapezoids(y, options), options.dim);
}

ValuesIndices cummax(const Tensor& x, std::int64_t dim) {
  return running<true>("CummaxBackward0", x, dim);
}
ValuesIndices cummin(const Tensor& x, std::int64_t dim) {
  return running<false>("CumminBackward0", x, dim);
}

Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (core::detail::traced_now())
    return core::detail::traced("cumsum", {x}, {{"dim", dim}}, [&] { return cumsum(x, dim, dtype); });
  if (!dtype) {
    if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return cumsum(to(x), dim, dtype);
  }
  Tensor in = summing_input(x, dtype);
  Tensor out = scanned(ScanOp::cumsum, in, dim);
  if (!needs_grad(in)) return out;
  auto node = make_node<CumsumBackward>(in);
  node->dim = raw::wrap_dim(dim, x.dim());
  record(out, node);
  return out;
}
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  if (core::detail::traced_now())
    return core::detail::traced("cumprod", {x}, {{"dim", dim}}, [&] { return cumprod(x, dim, dtype); });
  if (!dtype) {
    if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return cumprod(to(x), dim, dtype);
  }
  Tensor in = summing_input(x, dtype);
  Tensor out = scanned(ScanOp::cumprod, in, dim);
  if (!needs_grad(in)) return out;
  auto node = make_node<CumprodBackward>(in);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->save(in);
  record(out, node);
  return out;
}

}  // namespace core

// Running extremes, k-th values, modes and quantiles: picking by place, so that gradients go where the values came
// from.
#include <algorithm>
#include <cmath>

#include "libcore/autograd/function_nodes.h"
#include "libcore/autograd/host_math.h"
#include "libcore/base/error.h"
#include "libcore/tensor/more_ops.h"
#include "libcore/tensor/order_ops.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

/// The gradient is added where each value was taken from.
struct PlaceBackward final : Node {
  const char* printed = "";
  std::int64_t dim = 0;
  bool keepdim = true;
  Shape sizes;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    if (sizes.empty()) return {g[0]};
    const Tensor at = keepdim ? saved(0) : saved(0).unsqueeze(dim), up = keepdim ? g[0] : g[0].unsqueeze(dim);
    return {scatter_add(zeros(sizes, {.dtype = g[0].dtype(), .device = g[0].device()}), dim, at, up)};
  }
};

/// Values of x at `places` (with dim kept) under a node.
ValuesIndices picked(const char* printed, const Tensor& x, const Tensor& places, std::int64_t dim, bool keepdim) {
  Tensor values = raw::gather(x, dim, places);
  Tensor indices = places;
  const bool drop = !keepdim && x.dim() > 0;
  if (drop) {
    const NoGradGuard no_history;
    values = raw::alias(values).squeeze(dim).clone();
    indices = places.squeeze(dim).clone();
  }
  if (!needs_grad(x)) return {values, indices};
  auto node = make_node<PlaceBackward>(x);
  node->printed = printed;
  node->dim = dim;
  node->keepdim = !drop;
  node->sizes = x.sizes();
  node->save(indices);
  record(values, node);
  return {values, indices};
}

/// Calls line(values, places) for every line along dim, and gives the places as a tensor: `count` a line, or as many as
/// the line has.
template <class Value, class Line>
Tensor places_of_lines(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> count, Line line) {
  const NoGradGuard no_history;
  const Tensor last = x.dim() == 0 ? raw::alias(x).reshape({1}) : raw::alias(x).movedim(dim, -1);
  const std::int64_t length = last.size(-1), kept = count.value_or(length);
  const std::vector<Value> values = last.to_vector<Value>();
  const std::int64_t lines = length == 0 ? 0 : last.numel() / length;
  std::vector<std::int64_t> places(static_cast<std::size_t>(lines * kept));
  for (std::int64_t i = 0; i < lines; ++i) {
    line(std::span<const Value>(values).subspan(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length)),
         std::span<std::int64_t>(places).subspan(static_cast<std::size_t>(i * kept), static_cast<std::size_t>(kept)));
  }
  Shape sizes = last.sizes();
  sizes[sizes.size() - 1] = kept;
  const Tensor result = from_values(std::span<const std::int64_t>(places), sizes, {.device = x.device()});
  return x.dim() == 0 ? result.reshape({}) : result.movedim(-1, dim).contiguous();
}

/// Integers keep all their bits.
template <class Line>
Tensor places(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> count, Line line) {
  detail::check_host_dtype(x, "sort");
  if (is_floating(x.dtype())) return places_of_lines<double>(x, dim, count, line);
  return places_of_lines<std::int64_t>(x, dim, count, line);
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

void refuse_bool(const Tensor& x, const char* kernel) {
  if (x.dtype() != DType::boolean) return;
  throw Error(ErrorCode::not_implemented, std::string("\"") + kernel + "\" not implemented for 'Bool'");
}

void check_length(const Tensor& x, std::int64_t d, const char* name) {
  if (x.dim() > 0 && x.size(d) == 0) {
    throw Error(ErrorCode::index,
                std::string(name) + "(): Expected reduction dim " + std::to_string(d) + " to have non-zero size.");
  }
}

/// NaN is the largest.
template <class Value>
bool less(Value a, Value b) {
  return a < b || (a == a && b != b);
}

/// Places of the line's elements in ascending order; equal ones as they stand.
template <class Values>
std::vector<std::int64_t> ascending(Values values) {
  std::vector<std::int64_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return less(values[static_cast<std::size_t>(a)], values[static_cast<std::size_t>(b)]);
  });
  return order;
}

template <class Values>
std::int64_t place_of_mode(Values values) {
  const std::vector<std::int64_t> order = ascending(values);
  std::size_t best_end = 0, best_count = 0, count = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto value = values[static_cast<std::size_t>(order[i])];
    const bool same = i > 0 && value == values[static_cast<std::size_t>(order[i - 1])];
    count = same ? count + 1 : 1;
    if (count > best_count) {
      best_count = count;
      best_end = i;
    }
  }
  return order[best_end];
}

template <class Values>
std::int64_t place_of_median(Values values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[i]) return static_cast<std::int64_t>(i);
  }
  return ascending(values)[(values.size() - 1) / 2];
}

template <class Values>
std::int64_t place_of_nanmedian(Values values) {
  const std::vector<std::int64_t> order = ascending(values);
  std::int64_t numbers = 0;
  for (const auto value : values) numbers += value == value ? 1 : 0;
  return order[static_cast<std::size_t>(numbers == 0 ? 0 : (numbers - 1) / 2)];
}

}  // namespace

ValuesIndices cummax(const Tensor& x, std::int64_t dim) {
  return running<true>("CummaxBackward0", x, dim);
}
ValuesIndices cummin(const Tensor& x, std::int64_t dim) {
  return running<false>("CumminBackward0", x, dim);
}

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keepdim) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, "kthvalue");
  refuse_bool(x, "kthvalue_cpu");
  if (k < 1 || k > (x.dim() == 0 ? 1 : x.size(d))) {
    fail("kthvalue(): selected number k out of range for dimension " + std::to_string(d));
  }
  const Tensor at = places(x, d, 1, [k](auto values, std::span<std::int64_t> out) {
    out[0] = ascending(values)[static_cast<std::size_t>(k - 1)];
  });
  return picked("KthvalueBackward0", x, at, d, keepdim);
}

ValuesIndices mode(const Tensor& x, std::int64_t dim, bool keepdim) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, "mode");
  const Tensor at = places(x, d, 1, [](auto values, std::span<std::int64_t> out) { out[0] = place_of_mode(values); });
  return picked("ModeBackward0", x, at, d, keepdim);
}

namespace {

/// The place in each line that `place_of` finds.
template <class PlaceOf>
ValuesIndices middle_along(const char* printed, const char* name, const Tensor& x, std::int64_t dim, bool keepdim,
                           PlaceOf place_of) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, name);
  refuse_bool(x, "median_out");
  const Tensor at = places(x, d, 1, [&](auto values, std::span<std::int64_t> out) { out[0] = place_of(values); });
  return picked(printed, x, at, d, keepdim);
}

struct FlatPlaceBackward final : Node {
  const char* printed = "";
  Shape sizes;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    const Tensor zero = zeros({sizes.numel()}, {.dtype = g[0].dtype(), .device = g[0].device()});
    return {index_add(zero, 0, saved(0), g[0].reshape({1})).reshape(sizes)};
  }
};

template <class PlaceOf>
Tensor middle_of_all(const char* printed, const Tensor& x, PlaceOf place_of) {
  refuse_bool(x, "median_cpu");
  if (x.numel() == 0) return full({}, std::nan(""), {.dtype = x.dtype(), .device = x.device()});
  const Tensor flat = raw::alias(x).reshape({-1});
  const Tensor at = places(flat, 0, 1, [&](auto values, std::span<std::int64_t> out) { out[0] = place_of(values); });
  Tensor value = raw::view(raw::gather(flat, 0, at), {}, {}, 0);
  if (!needs_grad(x)) return value;
  auto node = make_node<FlatPlaceBackward>(x);
  node->printed = printed;
  node->sizes = x.sizes();
  node->save(at);
  record(value, node);
  return value;
}

}  // namespace

ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  return middle_along("MedianBackward1", "median", x, dim, keepdim,
                      [](auto values) { return place_of_median(values); });
}
Tensor median(const Tensor& x) {
  return middle_of_all("MedianBackward0", x, [](auto values) { return place_of_median(values); });
}
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim) {
  return middle_along("NanmedianBackward1", "nanmedian", x, dim, keepdim,
                      [](auto values) { return place_of_nanmedian(values); });
}
Tensor nanmedian(const Tensor& x) {
  return middle_of_all("NanmedianBackward0", x, [](auto values) { return place_of_nanmedian(values); });
}

namespace {

/// Equal extremes share the gradient, of the largest and of the smallest.
struct AminmaxBackward final : Node {
  std::optional<std::int64_t> dim;
  bool keepdim = false;
  Shape sizes;
  std::string_view name() const override { return "AminmaxBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor total;
    for (std::size_t i = 0; i < 2; ++i) {
      if (!g[i].defined()) continue;
      const Tensor part = share(g[i], saved(1 + i));
      total = total.defined() ? total + part : part;
    }
    return {total};
  }

 private:
  Tensor share(const Tensor& g, const Tensor& extreme) const {
    const bool drop = dim && !keepdim && !sizes.empty();
    const Tensor up = drop ? g.unsqueeze(*dim) : g, wide = drop ? extreme.unsqueeze(*dim) : extreme;
    const Tensor hit = detail::mask_as(saved(0) == wide, g);
    const Tensor count = dim ? sum(hit, {.dims = {*dim}, .keepdim = true}) : sum(hit);
    return hit * (up / count);
  }
};

}  // namespace

MinMax aminmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (x.numel() == 0 && !dim) {
    fail("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  }
  const ReduceOptions options{.dims = dim ? Shape{*dim} : Shape{}, .keepdim = keepdim};
  MinMax out{raw::reduce(ReduceOp::min, x, options), raw::reduce(ReduceOp::max, x, options)};
  if (!needs_grad(x)) return out;
  auto node = make_node<AminmaxBackward>(x);
  if (dim) node->dim = raw::wrap_dim(*dim, x.dim());
  node->keepdim = keepdim;
  node->sizes = x.sizes();
  record(out.min, node);
  record(out.max, node);
  node->save(x);
  node->save_output(out.min);
  node->save_output(out.max);
  return out;
}

namespace {

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
  return quantiles(x, q, options, false);
}
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  return quantiles(x, one_level(x, q), options, false);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  return quantiles(x, q, options, true);
}
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options) {
  return quantiles(x, one_level(x, q), options, true);
}

}  // namespace core

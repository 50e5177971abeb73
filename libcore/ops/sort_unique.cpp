// Distinct values, counts and searching.
#include "libcore/ops/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;

using Places = std::vector<std::int64_t>;

/// x as rows: one element each, or the slices along dim.
struct Rows {
  Tensor first;  // (rows, width)
  Shape shape;   // of one row, with the rows' own dimension
  std::int64_t dim = 0;
  bool flat = true;

  Rows(const Tensor& x, std::optional<std::int64_t> wanted) {
    const Tensor plain = raw::alias(x);
    flat = !wanted;
    if (flat) {
      first = plain.reshape({-1, 1});
      return;
    }
    dim = raw::wrap_dim(*wanted, x.dim());
    const Tensor front = plain.movedim(dim, 0);
    shape = front.sizes();
    first = front.contiguous().view({front.size(0), front.size(0) == 0 ? 0 : front.numel() / front.size(0)});
  }
  Tensor pick(const Places& rows) const {
    const Tensor chosen = raw::index_select(first, 0, from_values(rows, {.device = first.device()}));
    if (flat) return chosen.reshape({-1});
    Shape sizes = shape;
    sizes[0] = static_cast<std::int64_t>(rows.size());
    return chosen.reshape(sizes).movedim(0, dim).contiguous();
  }
};

template <class Value>
struct RowOrder {
  std::vector<Value> values;
  std::int64_t width;

  std::span<const Value> row(std::int64_t i) const {
    return std::span<const Value>(values).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
  }
  /// NaN behind all numbers.
  bool less(std::int64_t a, std::int64_t b) const {
    const auto x = row(a), y = row(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(),
                                        [](Value p, Value q) { return p < q || (p == p && q != q); });
  }
  bool equal(std::int64_t a, std::int64_t b) const { return std::ranges::equal(row(a), row(b)); }
};

/// Groups of equal neighbours in `order`.
template <class Value>
Unique grouped(const Rows& rows, const RowOrder<Value>& values, const Places& order, const Shape& inverse_sizes) {
  Places leaders, counts, inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !values.equal(order[i - 1], order[i])) {
      leaders.push_back(order[i]);
      counts.push_back(0);
    }
    ++counts.back();
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(leaders.size()) - 1;
  }
  const TensorOptions there{.device = rows.first.device()};
  return {rows.pick(leaders), from_values(std::span<const std::int64_t>(inverse), inverse_sizes, there),
          from_values(counts, there)};
}

template <class Value>
Unique distinct(const Tensor& x, std::optional<std::int64_t> dim, bool sorted) {
  detail::check_host_dtype(x, "unique");
  const Rows rows(x, dim);
  const RowOrder<Value> values{rows.first.to_vector<Value>(), rows.first.size(1)};
  Places order(static_cast<std::size_t>(rows.first.size(0)));
  std::iota(order.begin(), order.end(), 0);
  if (sorted) {
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return values.less(a, b); });
  }
  return grouped(rows, values, order, dim ? Shape{rows.first.size(0)} : x.sizes());
}

/// NaN stands behind all numbers.
template <class Value>
bool before(Value a, Value b) {
  return a < b || (a == a && b != b);
}

template <class Value>
Places search(const std::vector<Value>& sorted, const std::vector<Value>& values, std::size_t width, std::size_t asked,
              bool right) {
  Places result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t line = asked == 0 ? 0 : i / asked;
    const auto* begin = sorted.data() + line * width;
    const auto* found = right ? std::upper_bound(begin, begin + width, values[i], before<Value>)
                              : std::lower_bound(begin, begin + width, values[i], before<Value>);
    result[i] = found - begin;
  }
  return result;
}

std::string short_number(double v) {
  return std::isnan(v) ? "nan" : std::isinf(v) ? (v < 0 ? "-inf" : "inf") : std::to_string(std::llround(v));
}

/// What PyTorch calls C++'s type.
const char* type_text(DType dtype) {
  return dtype == DType::f64 ? "double" : dtype == DType::f32 ? "float" : scalar_type_name(dtype);
}

/// Which bin a value is in, or nothing outside of all; the last bin has its right edge too.
std::optional<std::size_t> bin_of(double value, const std::vector<double>& edges) {
  if (!(value >= edges.front() && value <= edges.back())) return {};
  const auto bin = static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), value) - edges.begin()) - 1;
  return std::min(bin, edges.size() - 2);
}

/// The counts of `values` between ascending edges, by weight.
std::vector<double> counted_between(const std::vector<double>& values, const std::vector<double>& weights,
                                    const std::vector<double>& edges) {
  std::vector<double> counts(edges.size() - 1, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (const auto bin = bin_of(values[i], edges)) counts[*bin] += weights.empty() ? 1 : weights[i];
  }
  return counts;
}

void check_histogram(const Tensor& x, const Tensor& weight) {
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"histogramdd\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  if (weight.defined() && weight.sizes() != x.sizes()) {
    fail(
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding "
        "its innermost dimension, but got input with shape " +
        to_list({x.numel(), 1}) + " and weight with shape " + to_list(weight.sizes()));
  }
}

void check_bins(std::int64_t bins, std::size_t dim) {
  if (bins > 0) return;
  fail("torch.histogram(): bins must be > 0, but got " + std::to_string(bins) + " for dimension " +
       std::to_string(dim));
}

/// The edges of equal bins over a range, or over that of x. dim: for messages.
Tensor equal_edges(const Tensor& x, std::int64_t bins, const std::optional<std::pair<double, double>>& range,
                   std::size_t dim) {
  double low = 0, high = 1;  // without elements
  const std::string at = std::to_string(dim);
  if (range) {
    low = range->first;
    high = range->second;
    if (low > high) {
      fail("torch.histogramdd: min should not exceed max, but got min " + short_number(low) + " max " +
           short_number(high) + " for dimension " + at);
    }
  } else if (x.numel() > 0) {
    low = x.min().item<double>();
    high = x.max().item<double>();
  }
  if (!std::isfinite(low) || !std::isfinite(high)) {
    fail("torch.histogramdd: dimension " + at + "'s range [" + short_number(low) + ", " + short_number(high) +
         "] is not finite");
  }
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return linspace(low, high, bins + 1, {.dtype = x.dtype(), .device = x.device()});
}

void check_points(const Tensor& x, std::size_t lists, const HistogramDdOptions& o) {
  if (x.dim() < 2) fail("torch.histogramdd: input tensor should have at least 2 dimensions");
  const auto rank = static_cast<std::size_t>(x.size(-1));
  if (lists != rank) fail("histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  Shape points = x.sizes();
  points.pop_back();
  if (o.weight.defined() && o.weight.sizes() != points) {
    fail(
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding "
        "its innermost dimension, but got input with shape " +
        to_list(x.sizes()) + " and weight with shape " + to_list(o.weight.sizes()));
  }
  if (!o.range.empty() && o.range.size() != 2 * rank) {
    fail("torch.histogramdd: for a " + std::to_string(rank) + "-dimensional histogram range should have " +
         std::to_string(2 * rank) + " elements, but got " + std::to_string(o.range.size()));
  }
  check_histogram(x, {});
}

Tensor counted_in_boxes(const Tensor& x, const std::vector<Tensor>& edges, const HistogramDdOptions& o) {
  Shape sizes;
  std::vector<std::vector<double>> at;
  double boxes = 1;
  for (const Tensor& edge : edges) {
    sizes.push_back(edge.numel() - 1);
    at.push_back(edge.to_vector<double>());
    boxes *= static_cast<double>(edge.numel() - 1);
  }
  if (boxes > 1e18) fail("Storage size calculation overflowed with sizes=" + to_list(sizes));
  const std::vector<double> values = x.to_vector<double>();
  const std::vector<double> weights = o.weight.defined() ? o.weight.to_vector<double>() : std::vector<double>{};
  std::vector<double> counts(static_cast<std::size_t>(sizes.numel()), 0);
  const std::size_t rank = at.size();
  double total = 0;
  for (std::size_t point = 0; rank > 0 && point < values.size() / rank; ++point) {
    std::size_t box = 0;
    bool inside = true;
    for (std::size_t d = 0; d < rank && inside; ++d) {
      const std::optional<std::size_t> bin = bin_of(values[point * rank + d], at[d]);
      inside = bin.has_value();
      box = box * static_cast<std::size_t>(sizes[d]) + bin.value_or(0);
    }
    if (!inside) continue;
    counts[box] += weights.empty() ? 1 : weights[point];
    total += weights.empty() ? 1 : weights[point];
  }
  Tensor hist = from_values(std::span<const double>(counts), sizes, {.device = x.device()});
  for (std::size_t d = 0; o.density && d < rank; ++d) {
    Shape along(rank, 1);
    along[d] = -1;
    hist = hist / diff(edges[d].to(DType::f64)).reshape(along);
  }
  return (o.density ? hist / total : hist).to(x.dtype());
}

}  // namespace

Unique unique_with(const Tensor& x, std::optional<std::int64_t> dim) {
  return is_floating(x.dtype()) ? distinct<double>(x, dim, true) : distinct<std::int64_t>(x, dim, true);
}
Unique unique_consecutive(const Tensor& x, std::optional<std::int64_t> dim) {
  return is_floating(x.dtype()) ? distinct<double>(x, dim, false) : distinct<std::int64_t>(x, dim, false);
}

Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  check_histogram(x, options.weight);
  if (edges.numel() < 2) fail("torch.histogram(): bins must be > 0, but got 0 for dimension 0");
  if (edges.dtype() != x.dtype()) {
    fail(std::string("torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                     "dtype ") +
         type_text(x.dtype()) + " and bins for dimension 0 with dtype " + type_text(edges.dtype()));
  }
  const std::vector<double> at = edges.to_vector<double>();
  std::vector<double> counts = counted_between(
      x.to_vector<double>(), options.weight.defined() ? options.weight.to_vector<double>() : std::vector<double>{}, at);
  if (options.density) {
    double total = 0;
    for (const double count : counts) total += count;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] /= total * (at[i + 1] - at[i]);
  }
  return {from_values(counts, {.dtype = x.dtype(), .device = x.device()}), edges};
}

Histogram histogram(const Tensor& x, std::int64_t bins, const HistogramOptions& options) {
  check_histogram(x, options.weight);
  check_bins(bins, 0);
  return histogram(x, equal_edges(x, bins, options.range, 0), options);
}

HistogramDd histogramdd(const Tensor& x, const std::vector<Tensor>& edges, const HistogramDdOptions& options) {
  check_points(x, edges.size(), options);
  for (std::size_t d = 0; d < edges.size(); ++d) {
    if (edges[d].numel() < 2) check_bins(0, d);
    if (edges[d].dtype() == x.dtype()) continue;
    fail(std::string("torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
                     "dtype ") +
         type_text(x.dtype()) + " and bins for dimension " + std::to_string(d) + " with dtype " +
         type_text(edges[d].dtype()));
  }
  return {counted_in_boxes(x, edges, options), edges};
}

HistogramDd histogramdd(const Tensor& x, const Shape& bins, const HistogramDdOptions& options) {
  const std::size_t rank = x.dim() > 1 ? static_cast<std::size_t>(x.size(-1)) : 0;
  const Shape counts = bins.size() == 1 && rank > 0 ? Shape(rank, bins[0]) : bins;
  check_points(x, counts.size(), options);
  const Tensor columns = x.detach().reshape({-1, x.size(-1)});
  std::vector<Tensor> edges;
  for (std::size_t d = 0; d < rank; ++d) {
    check_bins(counts[d], d);
    std::optional<std::pair<double, double>> range;
    if (!options.range.empty()) range = {options.range[2 * d], options.range[2 * d + 1]};
    edges.push_back(equal_edges(columns.select(1, static_cast<std::int64_t>(d)), counts[d], range, d));
  }
  return histogramdd(x, edges, options);
}

Tensor histc(const Tensor& x, std::int64_t bins, double low, double high) {
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"histogram_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  if (bins <= 0) fail("torch.histogram(): bins must be > 0, but got " + std::to_string(bins) + " for dimension 0");
  const std::vector<double> values = x.to_vector<double>();
  if (low == high && !values.empty()) {
    low = *std::min_element(values.begin(), values.end());
    high = *std::max_element(values.begin(), values.end());
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (!std::isfinite(low) || !std::isfinite(high)) {
    fail("torch.histc: range of [" + short_number(low) + ", " + short_number(high) + "] is not finite");
  }
  if (low > high) fail("torch.histc: max must be larger than min");
  std::vector<double> counts(static_cast<std::size_t>(bins), 0);
  for (const double value : values) {
    if (!(value >= low && value <= high)) continue;
    const auto bin = static_cast<std::int64_t>((value - low) / (high - low) * static_cast<double>(bins));
    counts[static_cast<std::size_t>(std::min(bin, bins - 1))] += 1;
  }
  return from_values(counts, {.dtype = x.dtype(), .device = x.device()});
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options) {
  if (sorted.dim() == 0)
    fail(
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
        "boundaries tensor dim(0) and input value's dim(" +
        std::to_string(values.dim()) + ") numel(" + std::to_string(values.numel()) + ")");
  detail::check_host_dtype(sorted, "searchsorted_out_cpu");
  detail::check_host_dtype(values, "searchsorted_out_cpu");
  bool fits = sorted.dim() == values.dim();
  for (std::int64_t d = 0; fits && d + 1 < sorted.dim(); ++d) fits = sorted.size(d) == values.size(d);
  if (sorted.dim() != 1 && !fits) {
    fail(
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
        "tensor and input value tensor must match, but we got boundaries tensor " +
        to_list(sorted.sizes()) + " and input value tensor " + to_list(values.sizes()));
  }
  const auto width = static_cast<std::size_t>(sorted.size(-1));
  const std::size_t asked = sorted.dim() == 1 ? 0 : static_cast<std::size_t>(values.size(-1));
  const bool floats = is_floating(sorted.dtype()) || is_floating(values.dtype());
  const Places places =
      floats ? search(sorted.to_vector<double>(), values.to_vector<double>(), width, asked, options.right)
             : search(sorted.to_vector<std::int64_t>(), values.to_vector<std::int64_t>(), width, asked, options.right);
  return from_values(std::span<const std::int64_t>(places), values.sizes(),
                     {.dtype = options.int32 ? DType::i32 : DType::i64, .device = values.device()});
}

Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& options) {
  if (boundaries.dim() != 1) {
    fail("boundaries tensor must be 1 dimension, but got dim(" + std::to_string(boundaries.dim()) + ")");
  }
  return searchsorted(boundaries, values, options);
}

Tensor bincount(const Tensor& x, std::int64_t minlength) {
  if (x.dim() != 1) fail("bincount only supports 1-d non-negative integral inputs.");
  const std::vector<std::int64_t> values = x.to_vector<std::int64_t>();
  std::int64_t size = minlength;
  for (const std::int64_t value : values) {
    if (value < 0) fail("bincount only supports 1-d non-negative integral inputs.");
    size = std::max(size, value + 1);
  }
  const Tensor zero = zeros({size}, {.dtype = DType::i64, .device = x.device()});
  return index_add(zero, 0, x.to(DType::i64), ones(x.sizes(), {.dtype = DType::i64, .device = x.device()}));
}

Tensor unique(const Tensor& x) {
  return unique_with(x).values;
}

Tensor isin(const Tensor& x, const Tensor& values, bool invert) {
  detail::check_host_dtype(x, "isin_default_cpu");
  detail::check_host_dtype(values, "isin_default_cpu");
  const DType common = result_type(x, values);
  const bool floats = is_floating(common);
  std::vector<bool> found;
  const auto search = [&](auto wanted, auto known) {
    std::sort(known.begin(), known.end());
    for (const auto v : wanted) found.push_back(std::binary_search(known.begin(), known.end(), v) != invert);
  };
  if (floats) {
    std::vector<double> known = values.to_vector<double>();
    std::erase_if(known, [](double v) { return v != v; });
    std::vector<double> wanted = x.to_vector<double>();
    std::vector<bool> missing;
    for (const double v : wanted) missing.push_back(v != v);
    search(wanted, known);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (missing[i]) found[i] = invert;
    }
  } else {
    search(x.to_vector<std::int64_t>(), values.to_vector<std::int64_t>());
  }
  const Tensor out = empty(x.sizes(), {.dtype = DType::boolean, .device = Device()});
  for (std::size_t i = 0; i < found.size(); ++i) out.mutable_data<bool>()[i] = found[i];
  return out.to(x.device());
}

}  // namespace core

// scatter_reduce: sums, products, means and extremes of all that goes to one place.
#include "libcore/ops/scatter.h"

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/index_checks.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

enum class Kind { sum, prod, mean, amax, amin };

Kind parse_kind(const std::string& text) {
  if (text == "sum") return Kind::sum;
  if (text == "prod") return Kind::prod;
  if (text == "mean") return Kind::mean;
  if (text == "amax") return Kind::amax;
  if (text == "amin") return Kind::amin;
  throw Error(ErrorCode::runtime, "reduce argument must be either sum, prod, mean, amax or amin, got " + text);
}

/// Where and how, for the forward function and the node.
struct Plan {
  Kind kind = Kind::sum;
  std::int64_t dim = 0;
  bool include_self = true;
};

template <class Value>
Value combined(Kind kind, Value a, Value b) {
  if (kind == Kind::prod) return a * b;
  if (a != a || b != b) return a != a ? a : b;  // NaN wins
  return kind == Kind::amax ? std::max(a, b) : std::min(a, b);
}

/// prod, amax, amin on the host. out, from, index: dense.
template <class Value>
void reduce_on_host(const Plan& plan, const Shape& out_sizes, std::vector<Value>& out, const Shape& index_sizes,
                    const std::vector<std::int64_t>& index, const Shape& from_sizes, const std::vector<Value>& from) {
  const Shape out_steps = contiguous_strides(out_sizes), from_steps = contiguous_strides(from_sizes);
  std::vector<bool> seen(out.size(), plan.include_self);
  const auto d = static_cast<std::size_t>(plan.dim);
  Shape at(index_sizes.size(), 0);
  for (const std::int64_t target : index) {
    std::int64_t to = 0, source = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      to += (k == d ? target : at[k]) * out_steps[k];
      source += at[k] * from_steps[k];
    }
    Value& slot = out[static_cast<std::size_t>(to)];
    const Value value = from[static_cast<std::size_t>(source)];
    slot = seen[static_cast<std::size_t>(to)] ? combined(plan.kind, slot, value) : value;
    seen[static_cast<std::size_t>(to)] = true;
    for (std::size_t k = at.size(); k-- > 0;) {
      if (++at[k] < index_sizes[k]) break;
      at[k] = 0;
    }
  }
}

Tensor host_reduced(const Plan& plan, const Tensor& x, const Tensor& index, const Tensor& from) {
  detail::check_host_dtype(x, "scatter_gather_tensor_cpu");
  raw::gather(x, plan.dim, index);  // checks shapes and the range of the index
  const auto run = [&](auto zero) {
    using Value = decltype(zero);
    std::vector<Value> values = raw::alias(x).template to_vector<Value>();
    reduce_on_host<Value>(plan, x.sizes(), values, index.sizes(), index.to_vector<std::int64_t>(), from.sizes(),
                          raw::alias(from).template to_vector<Value>());
    return from_values(std::span<const Value>(values), x.sizes(), {.dtype = x.dtype(), .device = x.device()});
  };
  return is_floating(x.dtype()) ? run(0.0) : run(std::int64_t{0});
}

Tensor as_mask(const Tensor& mask, const Tensor& like) {
  return detail::mask_as(mask, like);
}

/// Saved: x, from, index, result.
struct ExtremeOrProdBackward final : Node {
  Plan plan;
  std::string_view name() const override { return "ScatterReduceBackward0"; }
  TensorList apply(TensorList g) override {
    TensorList grads = plan.kind == Kind::prod ? of_product(g[0]) : of_extreme(g[0]);
    if (!plan.include_self && grads[0].defined()) grads[0] = scatter(grads[0], plan.dim, saved(2), Scalar(0));
    return grads;
  }

 private:
  /// All that equal the extreme share its gradient, which is NaN where NaN was the extreme. As in PyTorch x counts also
  /// where it is not included.
  TensorList of_extreme(const Tensor& g) const {
    const Tensor x = saved(0), from = saved(1), index = saved(2), result = saved(3);
    const Tensor own = as_mask(x == result, g);
    const Tensor theirs = as_mask(from == gather(result, plan.dim, index), g);
    const Tensor share = g / scatter_add(own, plan.dim, index, theirs);
    return {share * own, theirs * gather(share, plan.dim, index)};
  }

  /// Without division by zero: a factor that is the only 0 of its place gets the product of the others.
  TensorList of_product(const Tensor& g) const {
    const Tensor x = saved(0), from = saved(1), index = saved(2), result = saved(3);
    const auto product = [&](const Tensor& self, const Tensor& factors) {
      return scatter_reduce(self, plan.dim, index, factors, "prod", plan.include_self);
    };
    const Tensor safe_x = masked_fill(x, x == 0, 1);
    const Tensor own = g * product(safe_x, from) / safe_x;
    const Tensor zero = from == 0;
    Tensor count = scatter_add(zeros_like(x), plan.dim, index, as_mask(zero, x));
    if (plan.include_self) count = count + as_mask(x == 0, x);
    const Tensor only = logical_and(zero, gather(count, plan.dim, index) == 1);
    const Tensor others = gather(g * product(x, masked_fill(from, only, 1)), plan.dim, index);
    const Tensor divided = gather(g * result, plan.dim, index) / masked_fill(from, zero, 1);
    return {own, where(only, others, divided)};
  }
};

/// x where it counts: zeros at the places that are reduced without it.
Tensor start_of(const Tensor& x, const Plan& plan, const Tensor& index) {
  return plan.include_self ? x : scatter(x, plan.dim, index, Scalar(0));
}

Tensor summed(const Plan& plan, const Tensor& x, const Tensor& index, const Tensor& from) {
  return composed("ScatterReduceBackward0", {x, from}, [=](const TensorList& in) {
    const Tensor part = in[1].sizes() == index.sizes() ? in[1] : in[1].as_strided(index.sizes(), in[1].strides());
    const Tensor total = scatter_add(start_of(in[0], plan, index), plan.dim, index, part);
    if (plan.kind == Kind::sum) return total;
    const Tensor own = start_of(ones_like(in[0].detach()), plan, index);
    const Tensor added = ones(index.sizes(), {.dtype = in[0].dtype(), .device = in[0].device()});
    Tensor count = scatter_add(own, plan.dim, index, added);
    count = masked_fill(count, count == 0, 1);
    return is_floating(total.dtype()) ? total / count : div(total, count, Rounding::floor);
  });
}

/// Also where no element is reduced.
void check_index_reduce(const Tensor& x, std::int64_t d, const Tensor& index, const Tensor& from) {
  bool fits = x.dim() == from.dim();
  for (std::int64_t k = 0; fits && k < x.dim(); ++k) fits = k == d || x.size(k) == from.size(k);
  if (!fits) {
    throw Error(ErrorCode::runtime,
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape "
                "= " +
                    to_list(x.sizes()) + " source.shape = " + to_list(from.sizes()));
  }
  if (!x.device().is_cpu()) return;
  const std::int64_t size = x.dim() == 0 ? 1 : x.size(d);
  for (const std::int64_t at : index.to_vector<std::int64_t>()) {
    if (at < 0 || at >= size) throw Error(ErrorCode::index, "index out of range in self");
  }
}

/// The lengths of all segments, row after row of the dimensions before the axis, and where each row's first begins.
struct Segments {
  std::vector<std::int64_t> lengths, starts;
  Shape rows;  // sizes before the axis
  std::int64_t count = 0;
};

void check_segment_tensor(const Tensor& given, std::int64_t axis, const char* name) {
  if (is_inexact(given.dtype()) || given.dtype() == DType::boolean) {
    throw Error(ErrorCode::not_implemented, std::string("\"_segment_reduce_") + name +
                                                "_cpu_kernel1\" not implemented for '" +
                                                scalar_type_name(given.dtype()) + "'");
  }
  if (axis == given.dim() - 1) return;
  fail(std::string("segment_reduce(): Expected axis to be the last dimension of ") + name + " but got " +
       std::to_string(axis) + ".");
}

/// PyTorch reads behind the lengths here.
void check_segment_rows(const Tensor& x, const Tensor& given, std::int64_t axis, const char* name) {
  for (std::int64_t d = 0; d < axis; ++d) {
    if (given.size(d) == x.size(d)) continue;
    fail(std::string("segment_reduce(): Expected ") + name + " to have the sizes of data before axis, but got " +
         to_list(given.sizes()) + " for data of size " + to_list(x.sizes()) + ".");
  }
}

Segments segments_of(const Tensor& x, std::int64_t axis, const SegmentOptions& o) {
  if (!o.lengths.defined() && !o.offsets.defined()) {
    fail("segment_reduce(): Either lengths or offsets must be defined.");
  }
  const bool by_length = o.lengths.defined();
  const Tensor& given = by_length ? o.lengths : o.offsets;
  const char* name = by_length ? "lengths" : "offsets";
  check_segment_tensor(given, axis, name);
  check_segment_rows(x, given, axis, name);
  Segments result;
  for (std::int64_t d = 0; d < axis; ++d) result.rows.push_back(x.size(d));
  result.count = by_length ? given.size(-1) : given.size(-1) - 1;
  if (result.count < 0) fail("Trying to create tensor with negative dimension -1: [-1]");
  result.starts.assign(static_cast<std::size_t>(result.rows.numel()), 0);
  if (!by_length) result.starts = given.narrow(-1, 0, 1).to_vector<std::int64_t>();
  for (const std::int64_t start : result.starts) {
    if (start < 0)
      fail("segment_reduce(): Expected offsets not to be negative, but got " + std::to_string(start) + ".");
  }
  const Tensor lengths = by_length ? given : diff(given);
  result.lengths = lengths.to_vector<std::int64_t>();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < result.lengths.size(); ++i) {
    if (result.lengths[i] < 0) fail("lengths contains negative value!");
    total = i % static_cast<std::size_t>(result.count) == 0 ? result.lengths[i] : total + result.lengths[i];
    if (by_length && (i + 1) % static_cast<std::size_t>(result.count) == 0 && total != x.size(axis)) {
      fail(
          "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
          "!unsafe.");
    }
  }
  return result;
}

/// part: (length, ...) to (...); without an initial value empty segments give what changes nothing, the mean NaN.
Tensor reduced_segment(const Tensor& part, Kind kind, const std::optional<double>& initial) {
  const bool largest = kind == Kind::amax;
  const double infinite = std::numeric_limits<double>::infinity();
  const double nothing = kind == Kind::prod                         ? 1
                         : kind == Kind::amax || kind == Kind::amin ? (largest ? -infinite : infinite)
                                                                    : 0;
  const double start = initial.value_or(nothing);
  const Shape first{0};
  if (kind == Kind::amax || kind == Kind::amin) {
    Shape sizes = part.sizes();
    sizes.erase(0);
    const Tensor least = full(sizes, start, {.dtype = part.dtype(), .device = part.device()});
    if (part.size(0) == 0) return least + sum(part, {.dims = first});  // as it is, with the history of part
    const Tensor unknown = isnan(part.detach()), numbers = masked_fill(part, unknown, nothing);
    const Tensor extreme = largest ? amax(numbers, {.dims = first}) : amin(numbers, {.dims = first});
    const Tensor limited = where(largest ? extreme < least : extreme > least, least, extreme);
    // NaN wins, and takes the gradient.
    const Tensor count = sum(unknown, {.dims = first});
    const Tensor wrong = sum(masked_fill(part, logical_not(unknown), 0), {.dims = first}) / count.to(part.dtype());
    return where(count > 0, wrong, limited);
  }
  if (kind == Kind::prod) return prod(part, {.dims = first}) * start;
  const Tensor total = sum(part, {.dims = first}) + start;
  if (kind == Kind::sum || (part.size(0) == 0 && initial)) return total;
  return total / static_cast<double>(part.size(0));
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                      const std::string& reduce, bool include_self) {
  if (core::detail::traced_now())
    return core::detail::traced("scatter_reduce", {x, index, from},
                                {{"dim", dim}, {"reduce", std::string_view(reduce)}, {"include_self", include_self}},
                                [&] { return scatter_reduce(x, dim, index, from, reduce, include_self); });
  const Plan plan{parse_kind(reduce), raw::wrap_dim(dim, x.dim()), include_self};
  detail::check_scatter_dtype(x, from);
  if (plan.kind == Kind::sum || plan.kind == Kind::mean) return summed(plan, x, index, from);
  if (x.dim() == 0) {
    return scatter_reduce(x.reshape({1}), 0, index.reshape({-1}), from.reshape({-1}), reduce, include_self).reshape({});
  }
  Tensor out = host_reduced(plan, x, index, from);
  if (!needs_grad(x, from)) return out;
  auto node = make_node<ExtremeOrProdBackward>(x, from);
  node->plan = plan;
  node->save(x);
  node->save(from);
  node->save(index);
  record(out, node);
  node->save_output(out);
  return out;
}

Tensor index_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                    const std::string& reduce, bool include_self) {
  if (reduce != "prod" && reduce != "mean" && reduce != "amax" && reduce != "amin") {
    throw Error(ErrorCode::runtime,
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got " + reduce + ".");
  }
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  if (index.dim() > 1) {
    throw Error(ErrorCode::index,
                "index_reduce_(): Index is supposed to be a vector, but got dim: " + std::to_string(index.dim()) +
                    " with type: " + scalar_type_name(index.dtype()) + " and size: " + to_list(index.sizes()));
  }
  if (index.numel() != (from.dim() == 0 ? 1 : from.size(d))) {
    throw Error(ErrorCode::index, "index_reduce_(): Number of indices (" + std::to_string(index.numel()) +
                                      ") should be equal to source.size(dim): (" +
                                      std::to_string(from.dim() == 0 ? 1 : from.size(d)) +
                                      "), for dim: " + std::to_string(d));
  }
  check_index_reduce(x, d, index, from);
  return composed("IndexReduceBackward0", {x, from}, [=](const TensorList& in) {
    Shape row(in[1].sizes().size(), 1);
    if (!row.empty()) row[static_cast<std::size_t>(d)] = index.numel();
    return scatter_reduce(in[0], d, index.reshape(row).expand(in[1].sizes()), in[1], reduce, include_self);
  });
}
const Tensor& index_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                            const std::string& reduce, bool include_self) {
  detail::check_overlap(x, from);
  return detail::in_place(x, needs_grad(x, from),
                          [&](const Tensor& t) { return index_reduce(t, dim, index, from, reduce, include_self); });
}

Tensor segment_reduce(const Tensor& x, const std::string& reduce, const SegmentOptions& options) {
  const Kind kind = parse_kind(reduce == "max" ? "amax" : reduce == "min" ? "amin" : reduce);
  const std::int64_t axis = raw::wrap_dim(options.axis, x.dim());
  const Segments segments = segments_of(x, axis, options);
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"_segment_reduce_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  const std::optional<double> initial = options.initial;
  return composed("SegmentReduceBackward0", {x}, [=](const TensorList& in) {
    Shape sizes = in[0].sizes(), rows = in[0].sizes();
    sizes[static_cast<std::size_t>(axis)] = segments.count;
    for (std::int64_t d = 0; d < axis; ++d) rows.erase(0);
    rows.insert(0, segments.rows.numel());
    const Tensor flat = in[0].reshape(rows);
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (std::size_t i = 0; i < segments.lengths.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / segments.count;
      if (static_cast<std::int64_t>(i) % segments.count == 0) start = segments.starts[static_cast<std::size_t>(row)];
      parts.push_back(reduced_segment(flat.select(0, row).narrow(0, start, segments.lengths[i]), kind, initial));
      start += segments.lengths[i];
    }
    return parts.empty() ? zeros(sizes, {.dtype = in[0].dtype(), .device = in[0].device()})
                         : stack(parts).reshape(sizes);
  });
}

}  // namespace core

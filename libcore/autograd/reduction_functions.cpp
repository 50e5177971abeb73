// Differentiable reductions, scans and sorting.
#include <cmath>

#include "libcore/autograd/function_nodes.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/sparse.h"

namespace core {
namespace {

/// Gives a reduced gradient its lost dimensions back (size 1), ready to broadcast.
Tensor restore_dims(const Tensor& t, const ReduceOptions& options, std::int64_t rank) {
  if (options.keepdim || rank == 0) return t;
  if (options.dims.empty()) return t.reshape(Shape(static_cast<std::size_t>(rank), 1));
  auto reduced = raw::reduced_dims(options.dims, rank);
  Tensor wide = t;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d]) wide = wide.unsqueeze(static_cast<std::int64_t>(d));
  }
  return wide;
}

std::int64_t reduced_count(const Shape& sizes, const ReduceOptions& options) {
  auto reduced = raw::reduced_dims(options.dims, static_cast<std::int64_t>(sizes.size()));
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) count *= reduced[i] ? sizes[i] : 1;
  return count;
}

/// A node of a reduction: remembers what was asked and the input's sizes.
struct ReduceNode : Node {
  ReduceOptions options;
  Shape sizes;
  Tensor spread(const Tensor& g) const {
    return restore_dims(g, options, static_cast<std::int64_t>(sizes.size())).expand(sizes);
  }
  Tensor wide(const Tensor& t) const { return restore_dims(t, options, static_cast<std::int64_t>(sizes.size())); }
};

template <class N>
IntrusivePtr<N> reduce_node(const Tensor& x, const ReduceOptions& options) {
  auto node = make_node<N>(x);
  node->options = options;
  node->sizes = x.sizes();
  return node;
}

struct SumBackward final : ReduceNode {
  std::string_view name() const override {
    return options.dims.empty() && !options.keepdim ? "SumBackward0" : "SumBackward1";
  }
  TensorList apply(TensorList g) override { return {spread(g[0])}; }
};
struct MeanBackward final : ReduceNode {
  std::string_view name() const override {
    return options.dims.empty() && !options.keepdim ? "MeanBackward0" : "MeanBackward1";
  }
  TensorList apply(TensorList g) override { return {spread(g[0]) / reduced_count(sizes, options)}; }
};

/// Product of all others along dim: from both sides, so that zeros are no trouble.
Tensor product_of_others(const Tensor& x, std::int64_t dim) {
  std::int64_t n = x.size(dim);
  if (n == 0) return x;
  Tensor one = ones_like(x.narrow(dim, 0, 1));
  Tensor before = cumprod(cat({one, x.narrow(dim, 0, n - 1)}, dim), dim);
  Tensor reversed = flip(x.narrow(dim, 1, n - 1), {dim});
  Tensor after = flip(cumprod(cat({one, reversed}, dim), dim), {dim});
  return before * after;
}
/// The same over several dimensions, as one long one.
Tensor product_of_others(const Tensor& x, const Shape& dims) {
  if (dims.size() == 1) return product_of_others(x, raw::wrap_dim(dims[0], x.dim()));
  const auto reduced = raw::reduced_dims(dims, x.dim());
  Shape order, behind, kept;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const bool is_reduced = reduced[static_cast<std::size_t>(d)];
    (is_reduced ? behind : order).push_back(d);
    if (!is_reduced) kept.push_back(x.size(d));
  }
  for (const std::int64_t d : behind) order.push_back(d);
  Shape back(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const Tensor moved = x.permute(order);
  const auto along = static_cast<std::int64_t>(kept.size());
  kept.push_back(moved.numel() == 0 ? 0 : -1);
  return product_of_others(moved.reshape(kept), along).reshape(moved.sizes()).permute(back);
}
struct ProdBackward final : ReduceNode {
  std::string_view name() const override { return options.dims.empty() ? "ProdBackward0" : "ProdBackward1"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    if (x.dim() == 0) return {g[0]};
    if (options.dims.empty()) return {g[0] * product_of_others(x.reshape({-1}), 0).reshape(sizes)};
    return {wide(g[0]) * product_of_others(x, options.dims)};
  }
};

struct VarBackward final : ReduceNode {
  double correction = 1;
  std::string_view name() const override { return "VarBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    double scale = 2 / (static_cast<double>(reduced_count(sizes, options)) - correction);
    ReduceOptions keep{.dims = options.dims, .keepdim = true};
    return {wide(g[0]) * ((x - mean(x, keep)) * scale)};
  }
};
struct StdBackward final : ReduceNode {
  double correction = 1;
  std::string_view name() const override { return "StdBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    Tensor deviation = saved(1);
    Tensor outer = masked_fill(g[0] / (deviation * 2), deviation == 0, 0);
    double scale = 2 / (static_cast<double>(reduced_count(sizes, options)) - correction);
    ReduceOptions keep{.dims = options.dims, .keepdim = true};
    return {wide(outer) * ((x - mean(x, keep)) * scale)};
  }
};
struct NormBackward final : ReduceNode {
  double p = 2;
  std::string_view name() const override { return "LinalgVectorNormBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0), norm = wide(saved(1)), up = wide(g[0]);
    if (p == 0) return {zeros_like(x)};
    if (p == 1) return {sign(x) * up};
    if (p == 2) return {masked_fill(x / norm, norm == 0, 0) * up};
    if (std::isinf(p)) {
      Tensor hit = detail::mask_as(abs(x) == norm, x);
      return {sign(x) * hit * (up / sum(hit, {.dims = options.dims, .keepdim = true}))};
    }
    if (p < 1) return {masked_fill(sign(x) * pow(abs(x), p - 1), x == 0, 0) * (up * pow(norm, 1 - p))};
    const Tensor scale = masked_fill(up / pow(norm, p - 1), norm == 0, 0);
    return {(p < 2 ? sign(x) * pow(abs(x), p - 1) : x * pow(abs(x), p - 2)) * scale};
  }
};
struct LogsumexpBackward final : ReduceNode {
  std::string_view name() const override { return "LogsumexpBackward0"; }
  TensorList apply(TensorList g) override { return {wide(g[0]) * exp(saved(0) - wide(saved(1)))}; }
};
/// Equal extremes share the gradient.
struct AmaxBackward final : ReduceNode {
  std::string_view printed;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    Tensor hit = detail::mask_as(saved(0) == wide(saved(1)), g[0]);
    return {wide(g[0]) * hit / sum(hit, {.dims = options.dims, .keepdim = true})};
  }
};
/// The gradient goes to the element that an index points at.
struct PickBackward final : Node {
  std::string_view printed;
  std::int64_t dim = 0;
  bool keepdim = false;
  Shape sizes;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    Tensor index = saved(0);
    if (sizes.empty()) return {g[0]};
    Tensor up = keepdim ? g[0] : g[0].unsqueeze(dim);
    Tensor at = keepdim ? index : index.unsqueeze(dim);
    return {scatter_add(zeros(sizes, {.dtype = g[0].dtype(), .device = g[0].device()}), dim, at, up)};
  }
};
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

template <class N>
Tensor with_reduce_node(const Tensor& x, const ReduceOptions& options, Tensor out) {
  if (needs_grad(x)) record(out, reduce_node<N>(x, options));
  return out;
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& options) {
  if (detail::any_sparse(x)) return sum(to_dense(x), options);
  return with_reduce_node<SumBackward>(x, options, raw::reduce(ReduceOp::sum, x, options));
}
Tensor mean(const Tensor& x, const ReduceOptions& options) {
  return with_reduce_node<MeanBackward>(x, options, raw::reduce(ReduceOp::mean, x, options));
}
Tensor prod(const Tensor& x, const ReduceOptions& options) {
  Tensor out = raw::reduce(ReduceOp::prod, x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<ProdBackward>(x, options);
  node->save(x);
  record(out, node);
  return out;
}

namespace {
/// Elements that one result is made of.
std::int64_t elements_reduced(const Tensor& x, const Shape& dims) {
  if (dims.empty()) return x.numel();
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= x.dim() == 0 ? 1 : x.size(dim);
  return count;
}
void warn_without_freedom(const char* name, const Tensor& x, const VarOptions& options) {
  if (elements_reduced(x, options.dims) > options.correction) return;
  warn(std::string(name) +
       "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
       "divided by output numel).");
}
}  // namespace

Tensor var(const Tensor& x, const VarOptions& options) {
  ReduceOptions plain{.dims = options.dims, .keepdim = options.keepdim};
  Tensor out = raw::reduce(ReduceOp::var, x, plain, {0, options.correction});
  warn_without_freedom("var", x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<VarBackward>(x, plain);
  node->correction = options.correction;
  node->save(x);
  record(out, node);
  return out;
}
Tensor std(const Tensor& x, const VarOptions& options) {
  ReduceOptions plain{.dims = options.dims, .keepdim = options.keepdim};
  Tensor out = raw::unary(UnaryOp::sqrt, raw::reduce(ReduceOp::var, x, plain, {0, options.correction}));
  warn_without_freedom("std", x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<StdBackward>(x, plain);
  node->correction = options.correction;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}
Tensor norm(const Tensor& x, const NormOptions& options) {
  if (detail::any_sparse(x)) return norm(sparse_values(coalesce(x)), options);
  ReduceOptions plain{.dims = options.dims, .keepdim = options.keepdim};
  Tensor out = raw::reduce(ReduceOp::norm, x, plain, {options.p, 0});
  if (!needs_grad(x)) return out;
  auto node = reduce_node<NormBackward>(x, plain);
  node->p = options.p;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}

Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim) {
  Tensor in = is_floating(x.dtype()) ? x : x.to(default_dtype());
  Tensor out;
  {
    NoGradGuard no_history;
    Tensor top = raw::reduce(ReduceOp::max, in, {.dims = dims, .keepdim = true});
    Tensor shift = raw::where(isinf(top), zeros_like(top), top);
    Tensor total = sum(exp(in - shift), {.dims = dims, .keepdim = true});
    out = log(total) + shift;
    if (!keepdim) out = out.reshape(raw::reduce(ReduceOp::any, in, {.dims = dims}).sizes());
  }
  if (!needs_grad(x)) return out;
  ReduceOptions options{.dims = dims, .keepdim = keepdim};
  auto node = reduce_node<LogsumexpBackward>(x, options);
  node->save(in);
  record(out, node);
  node->save_output(out);
  return out;
}

namespace {

Tensor shared_extreme(ReduceOp op, const Tensor& x, const ReduceOptions& options, std::string_view printed) {
  Tensor out = raw::reduce(op, x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<AmaxBackward>(x, options);
  node->printed = printed;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}

Tensor extreme_of_all(ReduceOp op, const Tensor& x, std::string_view printed) {
  if (x.numel() == 0) {
    throw Error(ErrorCode::runtime,
                std::string(name(op)) +
                    "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                    "reduction dim with the 'dim' argument.");
  }
  return shared_extreme(op, x, {}, printed);
}

void record_pick(const Tensor& x, ValuesIndices& out, std::int64_t dim, bool keepdim, std::string_view printed) {
  if (!needs_grad(x)) return;
  auto node = make_node<PickBackward>(x);
  node->printed = printed;
  node->dim = raw::wrap_dim(dim, x.dim());
  node->keepdim = keepdim;
  node->sizes = x.sizes();
  node->save(out.indices);
  record(out.values, node);
}

ValuesIndices extreme_along(ReduceOp op, const Tensor& x, std::int64_t dim, bool keepdim, std::string_view printed) {
  ValuesIndices out = raw::reduce_with_indices(op, x, dim, keepdim);
  record_pick(x, out, dim, keepdim, printed);
  return out;
}

}  // namespace

Tensor amax(const Tensor& x, const ReduceOptions& options) {
  return shared_extreme(ReduceOp::max, x, options, "AmaxBackward0");
}
Tensor amin(const Tensor& x, const ReduceOptions& options) {
  return shared_extreme(ReduceOp::min, x, options, "AminBackward0");
}
Tensor max(const Tensor& x) {
  return extreme_of_all(ReduceOp::max, x, "MaxBackward1");
}
Tensor min(const Tensor& x) {
  return extreme_of_all(ReduceOp::min, x, "MinBackward1");
}
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme_along(ReduceOp::max, x, dim, keepdim, "MaxBackward0");
}
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extreme_along(ReduceOp::min, x, dim, keepdim, "MinBackward0");
}

namespace {

Tensor summing_input(const Tensor& x, std::optional<DType> dtype) {
  if (dtype) return x.to(*dtype);
  return is_floating(x.dtype()) ? x : x.to(DType::i64);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  Tensor in = summing_input(x, dtype);
  Tensor out = raw::scan(ScanOp::cumsum, in, dim);
  if (!needs_grad(in)) return out;
  auto node = make_node<CumsumBackward>(in);
  node->dim = raw::wrap_dim(dim, x.dim());
  record(out, node);
  return out;
}
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  Tensor in = summing_input(x, dtype);
  Tensor out = raw::scan(ScanOp::cumprod, in, dim);
  if (!needs_grad(in)) return out;
  auto node = make_node<CumprodBackward>(in);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->save(in);
  record(out, node);
  return out;
}

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  ValuesIndices out = raw::sort(x, dim, descending);
  record_pick(x, out, dim, true, "SortBackward0");
  return out;
}
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  std::int64_t d = raw::wrap_dim(dim, x.dim());
  if (k < 0 || k > (x.dim() == 0 ? 1 : x.size(d))) {
    throw Error(ErrorCode::runtime, "selected index k out of range");
  }
  ValuesIndices all = raw::sort(x, d, largest);
  if (x.dim() == 0) return all;
  NoGradGuard no_history;
  ValuesIndices out{all.values.narrow(d, 0, k).clone(), all.indices.narrow(d, 0, k).clone()};
  GradModeGuard on(true);
  record_pick(x, out, d, true, "TopkBackward0");
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& sizes) {
  if (x.sizes() == sizes) return x;
  Shape dims;
  std::size_t lead = x.sizes().size() - sizes.size();
  for (std::size_t i = 0; i < x.sizes().size(); ++i) {
    if (i < lead || (sizes[i - lead] == 1 && x.sizes()[i] != 1)) dims.push_back(static_cast<std::int64_t>(i));
  }
  Tensor out = dims.empty() ? x : sum(x, {.dims = dims, .keepdim = true});
  return lead > 0 ? out.view(sizes) : out;
}

}  // namespace core

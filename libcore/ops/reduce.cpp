// Sums, products and norms.
#include "libcore/ops/reduce.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/reduce_nodes.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::reduce_node;
using core::detail::reduced_count;
using core::detail::ReduceNode;
using core::detail::with_reduce_node;

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

/// The dimensions that are reduced (none: all) behind the others.
Tensor dimensions_last(const Tensor& x, const Shape& dims) {
  Shape order, last;
  std::vector<bool> reduced(static_cast<std::size_t>(x.dim()), dims.empty());
  for (const std::int64_t d : dims) reduced[static_cast<std::size_t>(raw::wrap_dim(d, x.dim()))] = true;
  for (std::size_t d = 0; d < reduced.size(); ++d) (reduced[d] ? last : order).push_back(static_cast<std::int64_t>(d));
  for (const std::int64_t d : last) order.push_back(d);
  return x.permute(order);
}

Shape kept_sizes(const Shape& sizes, const Shape& dims, bool keepdim) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  std::vector<bool> reduced(sizes.size(), dims.empty());
  for (const std::int64_t d : dims) reduced[static_cast<std::size_t>(raw::wrap_dim(d, rank))] = true;
  Shape result;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!reduced[d]) result.push_back(sizes[d]);
    if (reduced[d] && keepdim) result.push_back(1);
  }
  return result;
}

template <class Value>
std::vector<std::uint64_t> bits_of(const Tensor& x) {
  std::vector<std::uint64_t> bits;
  for (const Value value : x.to_vector<Value>()) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("sum", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return sum(x, options); });
  if (!options.dtype) {
    if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return sum(to(x), options);
  }
  if (detail::any_sparse(x)) return sum(to_dense(x), options);
  return with_reduce_node<SumBackward>(x, options, raw::reduce(ReduceOp::sum, x, options));
}
Tensor mean(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("mean", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return mean(x, options); });
  return with_reduce_node<MeanBackward>(x, options, raw::reduce(ReduceOp::mean, x, options));
}
Tensor prod(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("prod", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return prod(x, options); });
  if (const Casts to(CastRule::f32, CastOn::any, {&x}); to) return prod(to(x), options);
  Tensor out = raw::reduce(ReduceOp::prod, x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<ProdBackward>(x, options);
  node->save(x);
  record(out, node);
  return out;
}

Tensor norm(const Tensor& x, const NormOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("norm", {x}, {{"p", options.p}, {"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return norm(x, options); });
  if (is_complex(x.dtype())) return norm(abs(x), options);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return norm(to(x), options);
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
  if (core::detail::traced_now())
    return core::detail::traced("logsumexp", {x}, {{"dims", dims}, {"keepdim", keepdim}},
                                [&] { return logsumexp(x, dims, keepdim); });
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return logsumexp(to(x), dims, keepdim);
  if (is_complex(x.dtype())) {
    return composed("LogsumexpBackward0", {x}, [dims, keepdim](const TensorList& in) {
      const Tensor top = raw::reduce(ReduceOp::max, real(in[0].detach()), {.dims = dims, .keepdim = true});
      const Tensor total = log(sum(exp(in[0] - top), {.dims = dims, .keepdim = true})) + top;
      return keepdim ? total : sum(total, {.dims = dims});
    });
  }
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

Tensor all(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("all", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return all(x, options); });
  return raw::reduce(ReduceOp::all, x, options);
}
Tensor any(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("any", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return any(x, options); });
  return raw::reduce(ReduceOp::any, x, options);
}

Tensor hash_tensor(const Tensor& x, const Shape& dims, bool keepdim) {
  if (is_complex(x)) {
    fail(std::string("\"xor_sum_cpu\" not implemented for '") + scalar_type_name(x.dtype()) + "'",
         ErrorCode::not_implemented);
  }
  if (x.numel() == 0 && dims.empty()) {
    fail(
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
        "the 'dim' argument.");
  }
  const Tensor rows = dimensions_last(x.detach(), dims);
  const std::vector<std::uint64_t> all = is_floating(x.dtype()) ? bits_of<double>(rows) : bits_of<std::int64_t>(rows);
  const Shape sizes = kept_sizes(x.sizes(), dims, keepdim);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(sizes.numel()), 0);
  const std::size_t each = hashes.empty() ? 1 : all.size() / hashes.size();
  for (std::size_t i = 0; i < all.size(); ++i) hashes[i / each] ^= all[i];
  return from_bytes(std::as_bytes(std::span(hashes)), sizes, DType::u64, {.device = x.device()});
}

}  // namespace core

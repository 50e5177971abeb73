// Writing along one dimension, under a mask and by flat positions.
#include "libcore/ops/scatter.h"

#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/index_checks.h"
#include "libcore/ops/detail/index_nodes.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/deterministic.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::checked_positions;
using core::detail::fail;
using core::detail::index_node;
using core::detail::IndexNode;
using core::detail::reshaped;
using core::detail::zeros_for;
using detail::in_place;

struct IndexAddBackward final : IndexNode {
  std::string_view name() const override { return "IndexAddBackward0"; }
  TensorList apply(TensorList g) override { return {g[0], wants(1) ? index_select(g[0], dim, saved(0)) : Tensor()}; }
};

struct PutBackward final : Node {
  bool accumulate = false;
  Shape index_sizes;
  std::string_view name() const override { return "PutBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor at = saved(0);
    Tensor kept = g[0];
    if (!accumulate && wants(0)) kept = put(g[0], at, zeros_for(g[0], at.sizes()));
    return {kept, wants(1) ? take(g[0], at).reshape(index_sizes) : Tensor()};
  }
};
/// index_copy and index_fill: what was overwritten gets no gradient.
struct IndexWriteBackward final : Node {
  std::int64_t dim = 0;
  bool fill = false;
  std::string_view name() const override { return fill ? "IndexFillBackward0" : "IndexCopyBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor at = saved(0);
    Tensor kept = wants(0) ? index_fill(g[0], dim, at, 0) : Tensor();
    if (fill) return {kept};
    return {kept, wants(1) ? index_select(g[0], dim, at) : Tensor()};
  }
};
struct MaskedScatterBackward final : Node {
  Shape source_sizes;
  std::string_view name() const override { return "MaskedScatterBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor mask = saved(0);
    TensorList result{wants(0) ? masked_fill(g[0], mask, 0) : Tensor(), Tensor()};
    if (!wants(1)) return result;
    const Tensor used = masked_select(g[0], mask);
    const Tensor unused = zeros_for(g[0], {source_sizes.numel() - used.numel()});
    result[1] = cat({used, unused}).reshape(source_sizes);
    return result;
  }
};

Tensor flat_copy(const Tensor& x) {
  const Tensor dense = raw::contiguous(raw::clone(x));
  return raw::view(dense, {dense.numel()}, {1}, dense.storage_offset());
}

Tensor record_write(Tensor out, const Tensor& x, const Tensor& from, std::int64_t dim, const Tensor& index, bool fill) {
  if (!needs_grad(x, from)) return out;
  auto node = make_node<IndexWriteBackward>(x);
  if (!fill) node->add_edge(from);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->fill = fill;
  node->save(index);
  record(out, node);
  return out;
}

void check_index_copy(const Tensor& x, std::int64_t d, const Tensor& index, const Tensor& from) {
  if (index.dim() > 1) {
    fail("index_copy_(): Index should have dimension 1 or 0 (got " + std::to_string(index.dim()) + ")",
         ErrorCode::index);
  }
  if (index.dtype() != DType::i64) {
    fail(std::string("index_copy_(): Expected a long tensor for index, but got ") + scalar_type_name(index.dtype()));
  }
  if (x.dtype() != from.dtype()) {
    fail(std::string("index_copy_(): self and source expected to have the same dtype, but got (self) ") +
         scalar_type_name(x.dtype()) + " and (source) " + scalar_type_name(from.dtype()));
  }
  const std::int64_t rows = from.dim() == 0 ? 1 : from.size(d), size = x.dim() == 0 ? 1 : x.size(d);
  if (rows != index.numel()) {
    fail("index_copy_(): Number of indices (" + std::to_string(index.numel()) +
             ") should be equal to source.size(dim) (" + std::to_string(rows) + ")",
         ErrorCode::index);
  }
  for (const std::int64_t at : index.to_vector<std::int64_t>()) {
    if (at >= 0 && at < size) continue;
    fail("index_copy_(): index " + std::to_string(at) + " is out of bounds for dimension " + std::to_string(d) +
             " with size " + std::to_string(size),
         ErrorCode::index);
  }
}

}  // namespace

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  if (core::detail::traced_now())
    return core::detail::traced("index_add", {x, index, from}, {{"dim", dim}},
                                [&] { return index_add(x, dim, index, from); });
  detail::check_index_add_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::index_into(IndexOp::accumulate, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<IndexAddBackward>(x, from, dim, index));
  return out;
}

const Tensor& index_copy_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  return in_place(x, needs_grad(x, from), [&](const Tensor& t) { return index_copy(t, dim, index, from); });
}
const Tensor& index_fill_(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return index_fill(t, dim, index, value); });
}
const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source) {
  return in_place(x, needs_grad(x, source), [&](const Tensor& t) { return masked_scatter(t, mask, source); });
}
const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  return in_place(x, needs_grad(x, source), [&](const Tensor& t) { return put(t, index, source, accumulate); });
}

Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  if (!accumulate) core::detail::alert_not_deterministic("put_");
  const Tensor at = checked_positions(index, x.numel(), "put_");
  if (source.dtype() != x.dtype()) {
    fail(std::string("put_(): self and source expected to have the same dtype, but got self.dtype = ") +
         scalar_type_name(x.dtype()) + " and source.dtype = " + scalar_type_name(source.dtype()));
  }
  if (source.numel() != index.numel()) {
    fail("put_(): Expected source and index to have the same number of elements, but got source.numel() = " +
             std::to_string(source.numel()) + ", index.numel() = " + std::to_string(index.numel()),
         ErrorCode::index);
  }
  const Tensor flat = flat_copy(x);
  raw::index_into(accumulate ? IndexOp::accumulate : IndexOp::put, flat, 0, at, flat_copy(source));
  Tensor out = reshaped(flat, x.sizes());
  if (!needs_grad(x, source)) return out;
  auto node = make_node<PutBackward>(x, source);
  node->accumulate = accumulate;
  node->index_sizes = source.sizes();
  node->save(at);
  record(out, node);
  return out;
}

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  if (core::detail::traced_now())
    return core::detail::traced("index_copy", {x, index, from}, {{"dim", dim}},
                                [&] { return index_copy(x, dim, index, from); });
  if (const Casts to(CastRule::widest, CastOn::cpu, {&x, &index, &from}); to)
    return index_copy(to(x), dim, to(index), to(from));
  check_index_copy(x, raw::wrap_dim(dim, x.dim()), index, from);
  Tensor out = raw::clone(x);
  raw::index_into(IndexOp::put, out, dim, index.dim() == 0 ? raw::alias(index).reshape({1}) : index, from);
  return record_write(out, x, from, dim, index, false);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  if (core::detail::traced_now())
    return core::detail::traced("index_fill", {x, index}, {{"dim", dim}, {"value", value}},
                                [&] { return index_fill(x, dim, index, value); });
  if (index.dim() > 1) fail("Index has to be a vector/scalar");
  raw::check_fits_halves_too(value, x.dtype());
  const Tensor at = index.dim() == 0 ? raw::alias(index).reshape({1}) : index;
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  Tensor out = raw::clone(x);
  if (x.dim() == 0) {
    raw::fill_into(out, value);
    return record_write(out, x, {}, dim, at, true);
  }
  for (const std::int64_t position : at.to_vector<std::int64_t>()) {
    if (position >= -x.size(d) && position < x.size(d)) continue;
    fail("index " + std::to_string(position) + " is out of bounds for dimension " + std::to_string(d) + " with size " +
             std::to_string(x.size(d)),
         ErrorCode::index);
  }
  Shape sizes = x.sizes();
  sizes[static_cast<std::size_t>(d)] = at.numel();
  const Tensor wrapped = [&] {
    const NoGradGuard no_history;
    return where(at < 0, at + x.size(d), at);
  }();
  raw::index_into(IndexOp::put, out, d, wrapped, full(sizes, value, {.dtype = x.dtype(), .device = x.device()}));
  return record_write(out, x, {}, dim, wrapped, true);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  if (mask.dtype() != DType::boolean) {
    fail(std::string("masked_scatter_ only supports boolean masks, but got mask with dtype ") +
         scalar_type_name(mask.dtype()));
  }
  if (x.dtype() != source.dtype()) {
    fail(std::string("masked_scatter: expected self and source to have same dtypes but got") +
         scalar_type_name(x.dtype()) + " and " + scalar_type_name(source.dtype()));
  }
  const Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  const Tensor wide_mask = raw::alias(mask).expand(sizes).contiguous();
  const Tensor flat = flat_copy(raw::alias(x).expand(sizes));
  const Tensor at = nonzero(wide_mask.reshape({-1})).reshape({-1});
  if (at.numel() > source.numel()) {
    fail("Number of elements of source < number of ones in mask");
  }
  raw::index_into(IndexOp::put, flat, 0, at, flat_copy(source).narrow(0, 0, at.numel()));
  Tensor out = reshaped(flat, sizes);
  if (!needs_grad(x, source)) return out;
  auto node = make_node<MaskedScatterBackward>(x, source);
  node->source_sizes = source.sizes();
  node->save(wide_mask);
  record(out, node);
  return out;
}

}  // namespace core

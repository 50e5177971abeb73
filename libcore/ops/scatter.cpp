#include "libcore/ops/scatter.h"

#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/index_checks.h"
#include "libcore/ops/detail/index_nodes.h"
#include "libcore/ops/index.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::index_node;
using core::detail::IndexNode;
using core::detail::zeros_for;
using detail::in_place;

struct ScatterBackward final : IndexNode {
  std::string_view name() const override { return "ScatterBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor index = saved(0);
    Tensor kept = wants(0) ? scatter(g[0], dim, index, zeros_for(g[0], index.sizes())) : Tensor();
    return {kept, wants(1) ? gather(g[0], dim, index) : Tensor()};
  }
};
struct ScatterAddBackward final : IndexNode {
  std::string_view name() const override { return "ScatterAddBackward0"; }
  TensorList apply(TensorList g) override { return {g[0], wants(1) ? gather(g[0], dim, saved(0)) : Tensor()}; }
};

struct ScatterValueBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "ScatterBackward1"; }
  TensorList apply(TensorList g) override { return {scatter(g[0], dim, saved(0), Scalar(0))}; }
};

/// x with `part` where `slot_of` looks.
template <class SlotOf>
Tensor with_part(const char* printed, const Tensor& x, const Tensor& part, SlotOf slot_of) {
  return composed(printed, {x, part}, [slot_of](const TensorList& in) {
    Tensor copy = in[0].clone();
    const Tensor slot = slot_of(copy);
    if (slot.sizes() != in[1].sizes()) {
      fail("expected src to have a size equal to the slice of self. src size = " + to_list(in[1].sizes()) +
           ", slice size = " + to_list(slot.sizes()));
    }
    slot.copy_(in[1]);
    return copy;
  });
}

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  if (core::detail::traced_now())
    return core::detail::traced("scatter", {x, index, from}, {{"dim", dim}},
                                [&] { return scatter(x, dim, index, from); });
  detail::check_scatter_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::put, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<ScatterBackward>(x, from, dim, index));
  return out;
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from) {
  if (core::detail::traced_now())
    return core::detail::traced("scatter_add", {x, index, from}, {{"dim", dim}},
                                [&] { return scatter_add(x, dim, index, from); });
  if (const Casts to(CastRule::widest, CastOn::cuda, {&x, &index, &from}); to)
    return scatter_add(to(x), dim, to(index), to(from));
  detail::check_scatter_dtype(x, from);
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::accumulate, out, dim, index, from);
  if (needs_grad(x, from)) record(out, index_node<ScatterAddBackward>(x, from, dim, index));
  return out;
}

const Tensor& scatter_reduce_(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& from,
                              const std::string& reduce, bool include_self) {
  return in_place(x, needs_grad(x, from),
                  [&](const Tensor& t) { return scatter_reduce(t, dim, index, from, reduce, include_self); });
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  if (core::detail::traced_now())
    return core::detail::traced("scatter_value", {x, index}, {{"dim", dim}, {"value", value}},
                                [&] { return scatter(x, dim, index, value); });
  raw::check_fits_halves_too(value, x.dtype());
  Tensor out = raw::clone(x);
  raw::scatter_into(IndexOp::put, out, dim, index,
                    full(index.sizes(), value, {.dtype = x.dtype(), .device = x.device()}));
  if (!needs_grad(x)) return out;
  auto node = make_node<ScatterValueBackward>(x);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->save(index);
  record(out, node);
  return out;
}

Tensor select_scatter(const Tensor& x, const Tensor& part, std::int64_t dim, std::int64_t index) {
  return with_part("SelectScatterBackward0", x, part, [=](const Tensor& copy) { return copy.select(dim, index); });
}

Tensor slice_scatter(const Tensor& x, const Tensor& part, const SliceScatterOptions& o) {
  return with_part("SliceScatterBackward0", x, part,
                   [=](const Tensor& copy) { return copy.slice(o.dim, o.start, o.end, o.step); });
}

Tensor diagonal_scatter(const Tensor& x, const Tensor& part, std::int64_t offset, std::int64_t dim1,
                        std::int64_t dim2) {
  return with_part("DiagonalScatterBackward0", x, part,
                   [=](const Tensor& copy) { return copy.diagonal(offset, dim1, dim2); });
}

Tensor as_strided_scatter(const Tensor& x, const Tensor& part, const Shape& sizes, const Shape& strides,
                          std::optional<std::int64_t> offset) {
  return with_part("AsStridedScatterBackward0", x, part,
                   [=](const Tensor& copy) { return copy.as_strided(sizes, strides, offset); });
}

}  // namespace core

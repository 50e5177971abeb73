#pragma once
// Nodes that reductions share. Internal to ops.

#include <cstdint>
#include <string_view>

#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Gives a reduced gradient its lost dimensions back (size 1), ready to broadcast.
inline Tensor restore_dims(const Tensor& t, const ReduceOptions& options, std::int64_t rank) {
  if (options.keepdim || rank == 0) return t;
  if (options.dims.empty()) return t.reshape(Shape(static_cast<std::size_t>(rank), 1));
  auto reduced = raw::reduced_dims(options.dims, rank);
  Tensor wide = t;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d]) wide = wide.unsqueeze(static_cast<std::int64_t>(d));
  }
  return wide;
}

inline std::int64_t reduced_count(const Shape& sizes, const ReduceOptions& options) {
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

template <class N>
Tensor with_reduce_node(const Tensor& x, const ReduceOptions& options, Tensor out) {
  if (needs_grad(x)) record(out, reduce_node<N>(x, options));
  return out;
}

inline void record_pick(const Tensor& x, ValuesIndices& out, std::int64_t dim, bool keepdim, std::string_view printed) {
  if (!needs_grad(x)) return;
  auto node = make_node<PickBackward>(x);
  node->printed = printed;
  node->dim = raw::wrap_dim(dim, x.dim());
  node->keepdim = keepdim;
  node->sizes = x.sizes();
  node->save(out.indices);
  record(out.values, node);
}

/// Saved: x, and the element of it that is the result, whose gradient all elements that equal it share; NaN equals NaN.
struct EqualsBackward final : Node {
  std::string_view printed;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    const Tensor x = saved(0), picked = saved(1);
    Tensor equal = x == picked;
    if (is_inexact(x.dtype())) equal = logical_or(equal, logical_and(isnan(x), isnan(picked)));
    const Tensor hit = mask_as(equal, g[0]);
    return {hit * (g[0] / sum(hit))};
  }
};

/// `picked`: one of all elements of x.
inline void record_equals(const Tensor& x, Tensor& picked, std::string_view printed) {
  if (!needs_grad(x)) return;
  auto node = make_node<EqualsBackward>(x);
  node->printed = printed;
  node->save(x);
  record(picked, node);
  node->save_output(picked);
}

}  // namespace core::detail

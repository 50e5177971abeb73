#pragma once
// What the files that define views share. Internal to ops.

#include "libcore/ops/detail/nodes.h"
#include "libcore/tensor/tensor.h"

/// A node that keeps a few sizes or dimensions.
#define CORE_VIEW_NODE(Class, printed, members, ...)                   \
  struct Class final : Node {                                          \
    members std::string_view name() const override { return printed; } \
    TensorList apply(TensorList g) override { __VA_ARGS__ }            \
  };

namespace core::detail {

CORE_NODE(TBackward, "TBackward0", return {g[0].t()};)

/// Marks the view, and records N when the input has history; `set` fills the node's members.
template <class N, class Set>
Tensor make_view(const Tensor& x, Tensor out, Set set) {
  mark_view(out, x);
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  set(*node);
  record(out, node);
  return out;
}

}  // namespace core::detail

#pragma once
// Gradients of complex numbers by PyTorch's convention: where an operation multiplies by a derivative d, its gradient
// is multiplied by conj(d), so that a step against the gradient lowers a real loss. Nodes write the plain formula, g *
// d; what calls them takes conjugates on both sides, which is the same: conj(conj(g) * d). Internal to autograd and
// ops. Thread safety: as the node's apply(). Use: struct Twice : core::Node, core::detail::FollowsConvention {};

#include "libcore/autograd/node.h"

namespace core::detail {

/// Second base of a node whose apply() follows the convention itself: its operation has no complex derivative (abs,
/// conj, real parts), or it hands gradients to nodes, hooks or functions of users.
struct FollowsConvention {
  FollowsConvention() = default;
  FollowsConvention(const FollowsConvention&) = default;
  FollowsConvention& operator=(const FollowsConvention&) = default;
  virtual ~FollowsConvention() = default;
};

/// node.apply(grads) by the convention, or apply_directly(); costs little where no gradient is complex.
TensorList applied(Node& node, TensorList&& grads, bool directly = false);

}  // namespace core::detail

#pragma once
// What the files that define differentiable operations share. Internal to ops.
// Use: CORE_NODE(ExpBackward, "ExpBackward0", return {g[0] * saved(0)};)

#include "libcore/autograd/node.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

/// A node without members of its own: its printed name, and apply() with the gradients of the outputs in `g`.
#define CORE_NODE(Class, printed, ...)                                       \
  struct Class final : Node {                                                \
    std::string_view name() const override { return printed; }               \
    TensorList apply([[maybe_unused]] TensorList g) override { __VA_ARGS__ } \
  };

namespace core::detail {

/// Ends an operation on one input that keeps what `keep` says.
template <class N>
Tensor with_node(const Tensor& x, Tensor out) {
  if (needs_grad(x)) record(out, make_node<N>(x));
  return out;
}
/// ... and saves the input.
template <class N>
Tensor with_saved_input(const Tensor& x, Tensor out) {
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  node->save(x);
  record(out, node);
  return out;
}
/// ... and saves the result.
template <class N>
Tensor with_saved_output(const Tensor& x, Tensor out) {
  if (!needs_grad(x)) return out;
  auto node = make_node<N>(x);
  record(out, node);
  node->save_output(out);
  return out;
}

/// 1 where the mask is set, else 0, in the dtype of `like`.
inline Tensor mask_as(const Tensor& mask, const Tensor& like) {
  return raw::cast(mask, like.dtype());
}

/// Records N on two inputs and keeps each where the other's gradient needs it.
template <class N>
Tensor with_two(const Tensor& a, const Tensor& b, Tensor out) {
  if (!needs_grad(a, b)) return out;
  auto node = make_node<N>(a, b);
  node->save(a);
  node->save(b);
  record(out, node);
  return out;
}

}  // namespace core::detail

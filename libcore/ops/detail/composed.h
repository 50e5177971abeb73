#pragma once
// Composed operations: several operations that show as one node, as PyTorch's own kernels do.
// Forward runs without history and keeps nothing but the inputs; backward runs the function again with history and
// differentiates it. So every derivative is right, of any order, at the price of a second forward. Inputs of f16 and
// bf16 reach the function as f32, and what it gives is rounded once. For operations whose speed matters write a node by
// hand. Thread safety: as any operation; the function must be pure and own what it captures. Use: Tensor mish(const
// Tensor& x) {
//        return composed("MishBackward0", {x}, [](const TensorList& in) { return in[0] * tanh(softplus(in[0])); });
//      }

#include <functional>
#include <vector>

#include "libcore/autograd/node.h"

namespace core {

using ComposedOne = std::function<Tensor(const TensorList&)>;
using ComposedMany = std::function<TensorList(const TensorList&)>;

/// Result of `function` on `inputs` (some may be undefined) under one node called `printed`, a literal.
Tensor composed(const char* printed, const TensorList& inputs, ComposedOne function);
/// The same with several results; a result of an integer dtype has no gradient.
TensorList composed_many(const char* printed, const TensorList& inputs, ComposedMany function);

namespace detail {
/// Gradients of `function` at `inputs` for those marked in `wanted`, by running it again with history. When gradients
/// are to have history themselves, they hang on the inputs' own.
TensorList differentiated(const ComposedMany& function, const TensorList& inputs, const std::vector<bool>& wanted,
                          const TensorList& output_grads);
}  // namespace detail

}  // namespace core

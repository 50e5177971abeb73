#pragma once
// Derivatives of functions: Jacobians, Hessians and their products with vectors. As torch.autograd.functional.
// The function is called once, with history on, with a leaf of its own in the place of `x`; results have no history
// unless create_graph is set, which lets gradients flow into `x` and whatever else the function uses.
// Thread safety: as core::grad. Cost: jacobian() one backward pass an element of the output, the products one or two.
// Use: core::Tensor j = core::jacobian([](const core::Tensor& x) { return x * x; }, x);  // sizes of y, then of x

#include <functional>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

using TensorFunction = std::function<Tensor(const Tensor&)>;
using TensorsFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct FunctionalOptions {
  bool create_graph = false;
};

/// (sizes of f(x)..., sizes of x...); zeros where f does not depend on x.
Tensor jacobian(const TensorFunction& f, const Tensor& x, const FunctionalOptions& options = {});
/// One for each input.
std::vector<Tensor> jacobian(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                             const FunctionalOptions& options = {});
/// (sizes of x..., sizes of x...). Error(runtime) "The Tensor returned by the function given to hessian should contain
/// a single element".
Tensor hessian(const TensorFunction& f, const Tensor& x, const FunctionalOptions& options = {});

struct FunctionProduct {
  Tensor value;  ///< f(x)
  Tensor product;
};
// Errors(runtime): "v has invalid size: should be torch.Size([2]) but got torch.Size([3]).", "The vector v can only be
// None if ..." where an undefined v cannot stand for 1.

/// v times the Jacobian; v: as f(x).
FunctionProduct vjp(const TensorFunction& f, const Tensor& x, const Tensor& v = {},
                    const FunctionalOptions& options = {});
/// The Jacobian times v; v: as x.
FunctionProduct jvp(const TensorFunction& f, const Tensor& x, const Tensor& v = {},
                    const FunctionalOptions& options = {});
/// The Hessian times v; v: as x. One function under both of PyTorch's names, as Hessians are symmetric.
FunctionProduct hvp(const TensorFunction& f, const Tensor& x, const Tensor& v = {},
                    const FunctionalOptions& options = {});
FunctionProduct vhp(const TensorFunction& f, const Tensor& x, const Tensor& v = {},
                    const FunctionalOptions& options = {});

}  // namespace core

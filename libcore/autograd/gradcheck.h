#pragma once
// gradcheck: are the gradients of a function those that finite differences give? As torch.autograd.gradcheck and
// gradgradcheck. For tests of operations; f64 inputs without kinks nearby.
// Thread safety: writes to its inputs meanwhile. Cost: two calls per element of each input, one backward per element of
// each output. Use: core::gradcheck([](auto in) { return core::tanh(in[0]); }, {x});

#include <functional>
#include <span>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct GradcheckOptions {
  double eps = 1e-6;  ///< half the distance of the two points of a difference
  double atol = 1e-5;
  double rtol = 1e-3;
  bool raise_exception = true;  ///< false: the answer is false instead of an Error
};

using GradcheckFunction = std::function<Tensor(std::span<const Tensor>)>;
using GradcheckFunctionMany = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// Compares the Jacobians of every floating output by every input that requires a gradient.
/// Errors(runtime): "Jacobian mismatch for output 0 with respect to input 0,\nnumerical:...\nanalytical:...\n",
/// "Backward is not reentrant, ...", "Numerical gradient for function expected to be zero"; Error(value) when no input
/// requires a gradient. Warns, as PyTorch, about inputs that are not f64.
bool gradcheck(const GradcheckFunctionMany& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});
bool gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// The same for the second derivative: gradcheck of the function's gradient, by the inputs and by the gradients of its
/// outputs. `grad_outputs`: values of those; irregular ones when empty.
bool gradgradcheck(const GradcheckFunctionMany& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs = {}, const GradcheckOptions& options = {});
bool gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs = {}, const GradcheckOptions& options = {});

}  // namespace core

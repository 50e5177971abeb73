#pragma once
// Asking for gradients: core::grad, backward of several tensors. As torch.autograd; gradcheck is in gradcheck.h.
// Thread safety: backward of different graphs may run in different threads; leaves they share must not.
// Use: core::Tensor g = core::grad({loss}, {w}).at(0); loss.backward();  // adds to w.grad()

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  ///< upstream gradients, may be shorter or hold undefined ones for scalars
  bool retain_graph = false;              ///< implied by create_graph
  bool create_graph = false;              ///< the gradients get history themselves
  bool allow_unused = false;              ///< undefined for inputs that do not matter
  bool materialize_grads = false;         ///< zeros for them instead
  std::vector<Tensor> inputs = {};        ///< of backward: only these get gradients (all leaves when empty)
};

/// Gradients of the sum of `outputs` with respect to `inputs`; leaves' grad() stays. Errors: E7 texts of PyTorch.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});
/// Adds to grad() of all leaves that `outputs` depend on.
void backward(const std::vector<Tensor>& outputs, const GradOptions& options = {});

}  // namespace core

#pragma once
// All parameters as one flat tensor, and back. As torch.nn.utils.parameters_to_vector and vector_to_parameters.
// Thread safety: none. Use: core::Tensor flat = core::parameters_to_vector(model.parameters());

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// One-dimensional; differentiable. Error(value) "torch.cat(): expected a non-empty list of Tensors".
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Every parameter becomes a view of its part of `vector`. Error(runtime) when the vector is too short.
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace core

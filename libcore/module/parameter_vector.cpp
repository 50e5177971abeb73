#include "libcore/module/parameter_vector.h"

#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> parts;
  for (const Tensor& parameter : parameters) parts.push_back(parameter.reshape({-1}));
  return cat(parts);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  std::int64_t offset = 0;
  for (const Tensor& parameter : parameters) {
    parameter.set_data(vector.detach().narrow(0, offset, parameter.numel()).view(parameter.sizes()));
    offset += parameter.numel();
  }
}

}  // namespace core

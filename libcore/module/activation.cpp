#include "libcore/module/activation.h"

#include "libcore/base/text.h"

namespace core {

Tensor ReLU::forward(const Tensor& x) const {
  if (!inplace) return relu(x);
  return x.relu_();
}

std::string LeakyReLU::extra_repr() const {
  return "negative_slope=" + python_float(negative_slope);
}

std::string ELU::extra_repr() const {
  return "alpha=" + python_float(alpha);
}

std::string Softplus::extra_repr() const {
  return "beta=" + python_float(beta) + ", threshold=" + python_float(threshold);
}

std::string GELU::extra_repr() const {
  return std::string("approximate='") + (approximate == GeluForm::tanh ? "tanh" : "none") + "'";
}

}  // namespace core

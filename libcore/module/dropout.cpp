#include "libcore/module/dropout.h"

#include "libcore/base/text.h"
#include "libcore/module/print.h"
#include "libcore/tensor/nn_ops.h"

namespace core {

Dropout::Dropout(double probability, const DropoutOptions& options) : p(probability), inplace(options.inplace) {
  check_dropout_probability(p);
}

std::string Dropout::extra_repr() const {
  return "p=" + python_float(p) + ", inplace=" + detail::python_bool(inplace);
}

Tensor Dropout::forward(const Tensor& x) const {
  return inplace ? dropout_(x, p, is_training()) : dropout(x, p, is_training());
}

}  // namespace core

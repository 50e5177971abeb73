#include "libcore/module/parameter.h"

#include <ostream>

#include "libcore/base/error.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/uninitialized.h"

namespace core {

Parameter::Parameter(const Tensor& data, bool requires_grad) : Tensor(data.detach()) {
  if (requires_grad && !is_floating(dtype()) && !is_complex(dtype())) {
    throw Error(ErrorCode::runtime, "Only Tensors of floating point and complex dtype can require gradients");
  }
  requires_grad_(requires_grad);
}

std::ostream& operator<<(std::ostream& out, const Parameter& parameter) {
  if (is_uninitialized(parameter)) return out << "<UninitializedParameter>";
  return out << "Parameter containing:\n" << static_cast<const Tensor&>(parameter);
}

}  // namespace core

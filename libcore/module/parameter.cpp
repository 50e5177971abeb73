#include "libcore/module/parameter.h"

#include <ostream>

#include "libcore/base/error.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/uninitialized.h"

namespace core {

Parameter::Parameter(const Tensor& data, bool requires_grad) : Tensor(data.detach()) {
  if (requires_grad && !is_floating(dtype()) && !core::is_complex(dtype())) {
    throw Error(ErrorCode::runtime, "Only Tensors of floating point and complex dtype can require gradients");
  }
  requires_grad_(requires_grad);
}

const Parameter* Parameter::parameter_at(const void* place) {
  if (!detail::ParameterMark::stands_at(place)) return nullptr;
  return reinterpret_cast<const Parameter*>(static_cast<const char*>(place) - sizeof(Tensor));
}

bool Parameter::holds(const Tensor& tensor, std::size_t bytes) {
  static_assert(sizeof(Parameter) == sizeof(Tensor) + sizeof(detail::ParameterMark));
  return bytes >= sizeof(Parameter) &&
         detail::ParameterMark::stands_at(reinterpret_cast<const char*>(&tensor) + sizeof(Tensor));
}

std::ostream& operator<<(std::ostream& out, const Parameter& parameter) {
  if (is_uninitialized(parameter)) return out << "<UninitializedParameter>";
  return out << "Parameter containing:\n" << static_cast<const Tensor&>(parameter);
}

}  // namespace core

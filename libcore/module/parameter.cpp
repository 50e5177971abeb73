#include "libcore/module/parameter.h"

#include <ostream>

#include "libcore/tensor/print.h"

namespace core {

std::ostream& operator<<(std::ostream& out, const Parameter& parameter) {
  return out << "Parameter containing:\n" << static_cast<const Tensor&>(parameter);
}

}  // namespace core

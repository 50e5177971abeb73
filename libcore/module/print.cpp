#include "libcore/module/print.h"

#include "libcore/base/text.h"

namespace core::detail {

std::string python_number(Scalar value) {
  if (value.is_bool()) return python_bool(value.to_bool());
  return value.is_float() ? python_float(value.to_double()) : std::to_string(value.to_int());
}

std::string python_sizes(const Shape& sizes) {
  return sizes.size() == 1 ? std::to_string(sizes[0]) : python_tuple(sizes.to_vector());
}

}  // namespace core::detail

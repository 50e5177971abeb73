#include "libcore/module/padding.h"

#include "libcore/module/print.h"

namespace core {

PadState::PadState(std::size_t rank, const Shape& pads, PaddingMode how, Scalar filler)
    : padding(pads.size() == 1 ? Shape(2 * rank, pads[0]) : pads), mode(how), value(filler) {}

std::string PadState::describe() const {
  return detail::python_tuple(padding.to_vector());
}

std::string PadState::describe_constant() const {
  return "padding=" + detail::python_tuple(padding.to_vector()) + ", value=" + detail::python_number(value);
}

}  // namespace core

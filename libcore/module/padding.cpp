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

template class ModuleOf<ZeroPad1d>;
template class ModuleOf<ZeroPad2d>;
template class ModuleOf<ZeroPad3d>;
template class ModuleOf<ReflectionPad1d>;
template class ModuleOf<ReflectionPad2d>;
template class ModuleOf<ReflectionPad3d>;
template class ModuleOf<ReplicationPad1d>;
template class ModuleOf<ReplicationPad2d>;
template class ModuleOf<ReplicationPad3d>;
template class ModuleOf<CircularPad1d>;
template class ModuleOf<CircularPad2d>;
template class ModuleOf<CircularPad3d>;
template class ModuleOf<ConstantPad1d>;
template class ModuleOf<ConstantPad2d>;
template class ModuleOf<ConstantPad3d>;

}  // namespace core

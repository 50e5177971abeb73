#include "libcore/module/image.h"

#include "libcore/base/text.h"
#include "libcore/module/print.h"

namespace core {

std::string Upsample::extra_repr() const {
  std::string text = "size=" + detail::python_sizes(options.size);
  if (!options.scale_factor.empty()) {
    const auto& factors = options.scale_factor;
    text = "scale_factor=" + (factors.size() == 1 ? python_float(factors[0]) : "(");
    for (std::size_t i = 0; i < factors.size() && factors.size() > 1; ++i) {
      text += (i == 0 ? "" : ", ") + python_float(factors[i]);
    }
    if (factors.size() > 1) text += ")";
  }
  return text + ", mode='" + options.mode + "'";
}

std::string Unflatten::extra_repr() const {
  return "dim=" + std::to_string(dim) + ", unflattened_size=" + detail::python_tuple(unflattened_size.to_vector());
}

template class ModuleOf<Upsample>;
template class ModuleOf<UpsamplingNearest2d>;
template class ModuleOf<UpsamplingBilinear2d>;
template class ModuleOf<PixelShuffle>;
template class ModuleOf<PixelUnshuffle>;
template class ModuleOf<ChannelShuffle>;
template class ModuleOf<Unflatten>;

}  // namespace core

#include "libckpt/options.h"

#include <array>
#include <cstddef>

namespace ckpt {

std::string_view name(ChecksumCover cover) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "absent", "some", "all"};
  return kNames[static_cast<std::size_t>(cover)];
}

}  // namespace ckpt

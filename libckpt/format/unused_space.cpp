#include "libckpt/format/unused_space.h"

#include <algorithm>

#include "libckpt/format/format.h"

namespace ckpt {

std::uint64_t unused_space(const Checkpoint& checkpoint) {
  const Format* format = find_format(checkpoint.format);
  return format == nullptr || format->unused == nullptr ? 0 : format->unused(checkpoint);
}

std::uint64_t detail::beyond_alignment(std::uint64_t unused, std::uint64_t file_bytes) {
  constexpr std::uint64_t kLittle = 16ULL << 10;
  constexpr std::uint64_t kLittleShare = 16;
  return unused >= std::max(kLittle, file_bytes / kLittleShare) ? unused : 0;
}

}  // namespace ckpt

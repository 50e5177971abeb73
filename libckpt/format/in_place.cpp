#include "libckpt/format/in_place.h"

#include "libckpt/format/safetensors/present_files.h"

namespace ckpt {

void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target) {
  detail::require_all_listed(checkpoint, target);
}

}  // namespace ckpt

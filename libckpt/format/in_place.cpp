#include "libckpt/format/in_place.h"

#include "libckpt/format/safetensors/plan.h"
#include "libckpt/format/safetensors/present_files.h"

namespace ckpt {

void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target) {
  detail::require_all_listed(checkpoint, target);
}

std::optional<std::uint64_t> bytes_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target,
                                            const SaveOptions& options) {
  bool same_format = options.format.empty() || options.format == checkpoint.format;
  return same_format ? detail::header_edit_size(checkpoint, target, options) : std::nullopt;
}

}  // namespace ckpt

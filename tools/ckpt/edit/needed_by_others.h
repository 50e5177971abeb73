#pragma once
// Steps of a run that share tensors: a file that others need tensors of is not changed in place so that they would miss
// them. Thread safety: pure. Use: require_unneeded(target, before, after);

#include <filesystem>

#include "libckpt/checkpoint.h"

namespace cli {

/// Error(refused) naming a file beside `target` that needs tensors of it, where one that `before`, which `target`
/// holds, has is not in `after`, which is to take its place.
void require_unneeded(const std::filesystem::path& target, const ckpt::Checkpoint& before,
                      const ckpt::Checkpoint& after);

}  // namespace cli

#pragma once
// The rows of the format table for safetensors: one file, and shards behind an index. Thread safety: constants.
// Use: &detail::kSafetensors in the registry.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kSafetensors;         ///< "model.safetensors"
extern const Format kSafetensorsSharded;  ///< "model.safetensors.index.json" and the shards that it names

}  // namespace ckpt::detail

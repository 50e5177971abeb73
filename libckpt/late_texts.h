#pragma once
// Texts of a checkpoint's metadata that are known when all bytes of its tensors were read: those of a difference, which
// are made of what a save reads anyway. Internal. Thread safety: as a checkpoint. Use: if (const auto* late =
// late_texts(checkpoint)) late->put(index.metadata);

#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {

struct LateTexts : FormatDetail {
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  /// In place of texts of the same keys and sizes. What was not read yet is read. Errors: those of reading.
  virtual void put(Metadata& metadata) const = 0;
};

inline const LateTexts* late_texts(const Checkpoint& checkpoint) {
  return dynamic_cast<const LateTexts*>(checkpoint.detail.get());
}

/// The checkpoint with them.
inline Checkpoint with_late_texts(Checkpoint checkpoint) {
  if (const LateTexts* late = late_texts(checkpoint)) late->put(checkpoint.metadata);
  return checkpoint;
}

}  // namespace ckpt::detail

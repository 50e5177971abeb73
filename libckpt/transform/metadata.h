#pragma once
// edit_metadata: the file-level text of a checkpoint (safetensors __metadata__ and what other formats have like it),
// set and unset without touching a tensor. Thread safety: pure.
// Use: ckpt::Checkpoint c = ckpt::edit_metadata(ckpt::open("net.safetensors"), {.set = {{"license", "MIT"}}});

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

struct MetadataEdit {
  std::vector<std::pair<std::string, std::string>> set = {};  ///< key, new text; a new key goes behind the others
  std::vector<std::string> unset = {};                        ///< keys to remove
  bool clear = false;                                         ///< remove all others first
};

struct MetadataChanges {
  std::vector<std::string> added;
  std::vector<std::string> changed;  ///< had another text
  std::vector<std::string> removed;
  bool any() const { return !added.empty() || !changed.empty() || !removed.empty(); }
};

/// Order is kept. Errors: Error(key) for a key to remove that is not there, listing what is; Error(usage) for a key
/// that is set twice or both set and removed, or is empty. Whether a format has a place for metadata shows when saving.
Checkpoint edit_metadata(const Checkpoint& checkpoint, const MetadataEdit& edit, MetadataChanges* changes = nullptr);

}  // namespace ckpt

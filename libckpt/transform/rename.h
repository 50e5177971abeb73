#pragma once
// rename_keys: new names by a table. All at once, so that a swap works; what is not in the table stays.
// Thread safety: pure. Use: ckpt::rename_keys(checkpoint, {.table = {{"fc1.weight", "encoder.weight"}}});

#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/key_changes.h"

namespace ckpt {

struct RenameOptions {
  std::vector<std::pair<std::string, std::string>> table = {};  ///< old key, new key
  bool allow_unknown = false;                                   ///< let old keys pass that the file does not have
  std::string at = {};  ///< dotted path of the one dict to act on; "" = every state dict
};

/// Versions of a module follow when all its keys move together. Errors: Error(key) listing the old keys that no state
/// dict has; Error(collision) naming both keys; Error(usage) for an old key given twice with different new names.
Checkpoint rename_keys(const Checkpoint& checkpoint, const RenameOptions& options, KeyChanges* changes = nullptr);

}  // namespace ckpt

#pragma once
// strip_prefix and add_prefix: what a wrapper such as DataParallel puts before every key, taken off or put on.
// Whole dotted components only: "module." never touches "modules.0" or "my.module.weight". Order and per-module
// versions are kept. Thread safety: pure. Use: ckpt::Checkpoint plain = ckpt::strip_prefix(ckpt::open("net.pth"));

#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/key_changes.h"
#include "libckpt/wrappers.h"

namespace ckpt {

struct StripOptions {
  std::string prefix = "module.";  ///< the final dot may be left out
  bool repeat = false;             ///< again while a key still begins with it: module.module.fc -> fc
  bool anywhere = false;           ///< wherever it stands between dots: features.module.0.w -> features.0.w
  bool wrappers = false;           ///< instead of `prefix`: the components that known wrappers add, at any depth
  std::string at = {};             ///< dotted path of the one dict to act on; "" = every state dict
};

/// Takes the prefix off every key that has it; other keys stay as they are. When no key has it, `changes` says what
/// they begin with instead. Errors: Error(collision) naming both keys that would become one; Error(refused) for a key
/// that is nothing but the prefix; Error(key) when `at` names nothing; Error(usage) for an empty prefix.
Checkpoint strip_prefix(const Checkpoint& checkpoint, const StripOptions& options = {}, KeyChanges* changes = nullptr);

struct AddOptions {
  std::string prefix = "module.";  ///< the final dot may be left out
  std::string at = {};             ///< which state dict; "" = the only one outside optimizer states
};

/// Puts the prefix before every key of one state dict. Errors: Error(usage) listing the candidates when there are
/// several; Error(key) when there is none.
Checkpoint add_prefix(const Checkpoint& checkpoint, const AddOptions& options = {}, KeyChanges* changes = nullptr);

}  // namespace ckpt

#pragma once
// What a change of keys, and what rules did, is called in closing lines, dry runs and JSON.
// Thread safety: pure. Use: return key_edit(std::move(checkpoint), changes);

#include "libckpt/transform/rule_pack.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {

Edit key_edit(ckpt::Checkpoint checkpoint, const ckpt::KeyChanges& changes);

/// Lines for --dry-run: rules that compute other values than the file has, and how many tensors each acted on.
void note_rules(Edit& edit, const ckpt::Rules& rules, const ckpt::RuleReport& report);

/// What the pack says of itself, and what it doubts of the file.
void warn_of_pack(Edit& edit, const ckpt::RulePack& pack, const ckpt::RuleReport& report);

}  // namespace cli

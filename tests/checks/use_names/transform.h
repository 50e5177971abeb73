#pragma once
// What the `Use:` lines inside libckpt/transform take as given: parts of a checkpoint, and what is to become of them.

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/key_changes.h"
#include "libckpt/transform/key_edit.h"
#include "libckpt/transform/optimizer_keys.h"
#include "libckpt/transform/optimizer_names.h"
#include "libckpt/transform/quantized_parts.h"
#include "libckpt/transform/rule_engine.h"
#include "libckpt/transform/view_overlap.h"

namespace ckpt::detail::user {

extern const Checkpoint checkpoint;
extern Value root;
extern const Value node, state_dict;
extern Dict dict;
extern const std::vector<Value> path;
extern const EntryPtr entry, fresh;
extern const Entry& a;
extern const Entry& b;
extern const std::vector<ViewSpan> spans;
extern const std::vector<GroupShapes> groups;

extern const KeyEdit edit;
extern KeyChanges changes;
extern const NameChange rename;
extern bool changed;
extern const std::string key;
extern const std::string text;

extern const Rule rule;
extern std::vector<RuleItem> items;
extern RuleNotes notes;

extern const PackedNumbers packed;  // of a quantised layer
extern const EntryPtr scales;

extern const core::DType dtype;
extern const std::byte* const in;
extern std::byte* const wide;
extern const std::size_t count;

}  // namespace ckpt::detail::user

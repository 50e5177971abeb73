#include "tools/ckpt/edit/key_report.h"

#include "libcore/base/text.h"

namespace cli {

Edit key_edit(ckpt::Checkpoint checkpoint, const ckpt::KeyChanges& changes) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = !changes.renamed.empty();
  edit.summary = core::format_count(changes.renamed.size()) + " of " + count_of(changes.keys, "key") + " renamed";
  for (const ckpt::KeyChange& change : changes.renamed) {
    std::string place = change.state_dict.empty() ? "" : core::printable(change.state_dict) + ": ";
    edit.steps.push_back(place + core::printable(change.from) + " -> " + core::printable(change.to));
  }
  edit.json = [changes](ckpt::JsonWriter& json) {
    json.key("keys").value(changes.keys);
    json.key("renamed").begin_array();
    for (const ckpt::KeyChange& change : changes.renamed) {
      json.begin_object();
      json.key("state_dict").value(change.state_dict);
      json.key("from").value(change.from);
      json.key("to").value(change.to);
      json.end_object();
    }
    json.end_array();
  };
  return edit;
}

void note_rules(Edit& edit, const ckpt::Rules& rules, const ckpt::RuleReport& report) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const ckpt::Rule::Kind kind = rules[i].kind;
    const bool computes = kind == ckpt::Rule::Kind::add || kind == ckpt::Rule::Kind::fold;
    if (!computes || report.steps[i].matched == 0) continue;
    edit.steps.push_back(core::printable(report.steps[i].rule) + ": " + count_of(report.steps[i].matched, "tensor"));
  }
}

void warn_of_pack(Edit& edit, const ckpt::RulePack& pack, const ckpt::RuleReport& report) {
  for (const std::string& doubt : ckpt::doubts(pack, report)) edit.warnings.push_back(doubt);
  if (!pack.note.empty()) edit.warnings.push_back(pack.note);
}

}  // namespace cli

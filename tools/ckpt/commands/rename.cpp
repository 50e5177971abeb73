// ckpt rename: new keys, and what rules can do beyond that, by a file of rules or by globs.

#include "libckpt/transform/rename.h"
#include "libckpt/analyze/key_list.h"
#include "libckpt/keras/family_rules.h"
#include "libckpt/origin.h"
#include "libckpt/transform/pattern.h"
#include "libckpt/transform/rules.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/key_report.h"
#include "tools/ckpt/line/rule_options.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string map;
  std::vector<std::string> globs;
  bool reverse = false;
  bool allow_unknown = false;
};

ckpt::Rule parse_glob_rule(const std::string& text) {
  std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw Error(ErrorCode::usage,
                core::quote(text) + " is not a pair of a pattern and a name such as 'enc.*=encoder.*'");
  }
  ckpt::Rule rule;
  rule.names = {{text.substr(0, equals), text.substr(equals + 1)}};
  ckpt::Template::parse(rule.names[0].second, ckpt::Pattern::parse(rule.names[0].first));
  return rule;
}

GivenRules read_options(const Options& options) {
  if (options.map.empty() == options.globs.empty()) {
    throw Error(ErrorCode::usage, "give either --map RULES or --glob 'A=B'");
  }
  GivenRules given;
  if (!options.map.empty()) return read_rules(options.map, options.reverse);
  for (const std::string& glob : options.globs) given.rules.push_back(parse_glob_rule(glob));
  if (options.reverse) given.rules = ckpt::reversed(given.rules);
  return given;
}

/// The table that rules are when they only name keys; those are renamed in every state dict, optimizer states too.
std::optional<ckpt::RenameOptions> as_table(const ckpt::Rules& rules) {
  if (rules.size() != 1 || rules[0].kind != ckpt::Rule::Kind::rename) return std::nullopt;
  ckpt::RenameOptions out;
  for (const auto& [from, to] : rules[0].names) {
    ckpt::Pattern pattern = ckpt::Pattern::parse(from);
    if (!pattern.is_name()) return std::nullopt;
    out.table.emplace_back(pattern.name(), ckpt::Template::parse(to, pattern).expand({}));
  }
  return out;
}

void write_texts(ckpt::JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_report_json(ckpt::JsonWriter& json, const ckpt::RuleReport& report) {
  json.key("rules").begin_array();
  for (const ckpt::RuleReport::Step& step : report.steps) {
    json.begin_object();
    json.key("rule").value(step.rule);
    json.key("matched").value(step.matched);
    json.end_object();
  }
  json.end_array();
  write_texts(json, "dropped_keys", report.dropped);
  write_texts(json, "made_keys", report.made);
  write_texts(json, "unmatched", report.unmatched);
  json.key("changed_tensors").value(report.changed);
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::RuleReport& report) {
  Edit edit = key_edit(std::move(checkpoint), report.keys);
  edit.changed |= report.changed > 0 || !report.made.empty() || !report.dropped.empty();
  if (!report.dropped.empty()) edit.summary += ", " + core::format_count(report.dropped.size()) + " dropped";
  if (!report.made.empty()) edit.summary += ", " + core::format_count(report.made.size()) + " made";
  if (report.changed > 0) edit.summary += ", " + count_of(report.changed, "tensor") + " changed";
  for (const std::string& key : report.dropped) edit.steps.push_back("drop " + core::printable(key));
  for (const std::string& key : report.made) edit.steps.push_back("make " + core::printable(key));
  for (const std::string& rule : report.unmatched) edit.steps.push_back("matches nothing: " + core::printable(rule));
  edit.json = [report, keys = edit.json](ckpt::JsonWriter& json) {
    keys(json);
    write_report_json(json, report);
  };
  return edit;
}

Edit apply_table(const ckpt::Checkpoint& checkpoint, ckpt::RenameOptions rename, const std::string& at) {
  rename.at = at;
  ckpt::KeyChanges changes;
  ckpt::Checkpoint renamed = ckpt::rename_keys(checkpoint, rename, &changes);
  return key_edit(std::move(renamed), changes);
}

std::vector<ckpt::NamedShape> shapes_of(const ckpt::KeyList& list) {
  std::vector<ckpt::NamedShape> out;
  for (const ckpt::WantedKey& key : list.keys) out.push_back({key.key, key.shape.value_or(core::Shape{})});
  return out;
}

/// A pack is for models of any depth, so that rules of it may match nothing; whose names the file has is checked.
Edit apply_pack(const ckpt::Checkpoint& checkpoint, const ckpt::RulePack& pack, const std::string& at, bool unchecked) {
  ckpt::KeyList keys = ckpt::key_list_of(checkpoint, checkpoint.path.string(), at);
  ckpt::Rules rules = unchecked ? pack.rules : ckpt::keras_family_rules(pack, checkpoint, shapes_of(keys));
  ckpt::RuleReport report;
  ckpt::Checkpoint renamed = ckpt::apply_rules(checkpoint, rules, {.at = at}, &report);
  if (!pack.note.empty()) renamed = ckpt::with_origin(renamed, ckpt::origin_text(pack));
  const ckpt::RuleReport whole = report;
  report.unmatched.clear();
  Edit edit = describe(std::move(renamed), report);
  note_rules(edit, rules, report);
  edit.summary += " from " + pack.from + "'s names to " + pack.to + "'s";
  warn_of_pack(edit, pack, whole);
  return edit;
}

Edit apply_given(const Options& options, const GivenRules& given, const std::optional<ckpt::RenameOptions>& table,
                 const ckpt::Checkpoint& checkpoint, const std::string& at) {
  if (given.pack) return apply_pack(checkpoint, *given.pack, at, options.allow_unknown);
  if (table) return apply_table(checkpoint, *table, at);
  ckpt::RuleReport report;
  ckpt::RuleOptions how{at, !options.allow_unknown};
  ckpt::Checkpoint renamed = ckpt::apply_rules(checkpoint, given.rules, how, &report);
  Edit edit = describe(std::move(renamed), report);
  note_rules(edit, given.rules, report);
  for (const std::string& lost : report.lost) edit.warnings.push_back(lost);
  return edit;
}

int run(Context& context, const Options& options) {
  GivenRules given = read_options(options);
  std::optional<ckpt::RenameOptions> table = as_table(given.rules);
  if (table) table->allow_unknown = options.allow_unknown;
  return run_edits(context, options, {"rename", "renamed"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     return apply_given(options, given, table, checkpoint, at);
                   });
}

}  // namespace

void add_rename(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "rename",
      "ckpt rename --glob 'encoder.layer{#i}.*=blocks.{i}.*' net.pth\n  ckpt rename --rules timm-vit vit.pth",
      "Rename keys by patterns or by a file of rules, which can also drop, transpose, reshape, split, fuse, cast, "
      "tie, add to and fold tensors. '*' stands for any characters, {name} for one component, {#i} for a number, and "
      "each may be used again in the new name ({i-1} counts). Two keys that would get one name are an error.");
  auto options = std::make_shared<Options>();
  command.add_option("--map,--rules", options->map, kRulesHelp).type_name("RULES");
  command
      .add_option("--glob", options->globs,
                  "rename what matches A to B, as in 'enc.*=encoder.*' or 're:(.*)\\.gamma=\\1.weight'; may be "
                  "repeated, one after the other")
      .type_name("A=B")
      .one_value_each();
  command.add_flag("--reverse", options->reverse, "undo what the rules do");
  command.add_flag("--allow-unknown", options->allow_unknown,
                   "accept rules that match nothing, and built-in ones made for other names");
  add_edit_options(command, *options, "NAME.renamed.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

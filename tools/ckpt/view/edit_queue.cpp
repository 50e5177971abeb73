#include "tools/ckpt/view/edit_queue.h"

#include <algorithm>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/select.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/edit/key_report.h"

namespace cli {
namespace {

/// `text` as a pattern, or a template, that means itself.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::string_view("*?[]{}\\$").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  if (out.starts_with("re:") || out.starts_with("@")) out.insert(0, "\\");
  return out;
}

/// The innermost state dict that a dotted name lies in.
std::string state_dict_of(const ckpt::Value& root, const std::string& name) {
  std::string best;
  for (const ckpt::StateDictRef& dict : ckpt::list_state_dicts(root)) {
    if (name.starts_with(dict.name + ".") && dict.name.size() > best.size()) best = dict.name;
  }
  return best;
}

std::string joined(const std::string& at, const std::string& below) {
  return at.empty() || below.empty() ? at + below : at + "." + below;
}

std::string line_of(const std::string& command, const std::string& option, const std::string& value,
                    const std::string& file) {
  return ckpt::ShellCommand("ckpt").word(command).option(option, value).file(file).text();
}

}  // namespace

QueuedEdit rename_edit(const ckpt::Value& root, const std::string& file, const std::string& name, const std::string& to,
                       bool is_module) {
  if (to.empty() || to == name) throw core::Error(core::ErrorCode::usage, "the new name is empty or the old one");
  const std::string dict = state_dict_of(root, name);
  const std::string from = dict.empty() ? name : name.substr(dict.size() + 1);
  if (!dict.empty() && !to.starts_with(dict + ".")) {
    throw core::Error(core::ErrorCode::usage,
                      "a key cannot leave its state dict: the new name begins with " + core::quote(dict + "."));
  }
  const std::string target = dict.empty() ? to : to.substr(dict.size() + 1);
  ckpt::Rule rule;
  // Whichever of the two is there: a tensor of that name, or keys below it.
  rule.names = {{escaped(from), escaped(target)}, {escaped(from) + ".*", escaped(target) + ".*"}};
  const std::string below = is_module ? ".*" : "";
  const std::string glob = escaped(from) + below + "=" + escaped(target) + below;
  return {line_of("rename", "--glob", glob, dict.empty() ? file : file + "::" + dict),
          [=](const ckpt::Checkpoint& checkpoint, const std::string& at) {
            ckpt::RuleReport report;
            ckpt::Checkpoint renamed = ckpt::apply_rules(checkpoint, {rule}, {.at = joined(at, dict)}, &report);
            return key_edit(std::move(renamed), report.keys);
          }};
}

QueuedEdit cast_edit(const std::string& file, const std::string& dtype) {
  ckpt::CastOptions cast;
  cast.to = core::parse_dtype(dtype);
  ckpt::cast(ckpt::Checkpoint{}, cast);
  return {line_of("cast", "--to", std::string(core::short_name(cast.to)), file),
          [=](const ckpt::Checkpoint& checkpoint, const std::string& at) {
            ckpt::CastOptions how = cast;
            how.at = at;
            ckpt::CastReport report;
            Edit edit;
            edit.checkpoint = ckpt::cast(checkpoint, how, &report);
            edit.changed = report.changed > 0;
            edit.summary = core::format_count(report.changed) + " of " + count_of(report.tensors, "tensor") +
                           " cast, " + core::format_size(report.bytes_before) + " -> " +
                           core::format_size(report.bytes_after);
            return edit;
          }};
}

QueuedEdit remap_edit(const std::string& file, const std::string& device) {
  ckpt::MapLocationOptions remap;
  remap.to = device;
  ckpt::map_location(ckpt::Checkpoint{}, remap);
  return {line_of("remap", "--to", device, file), [=](const ckpt::Checkpoint& checkpoint, const std::string& at) {
            ckpt::MapLocationOptions how = remap;
            how.at = at;
            ckpt::LocationChanges changes;
            Edit edit;
            edit.checkpoint = ckpt::map_location(checkpoint, how, &changes);
            edit.changed = changes.changed + changes.device_values > 0;
            edit.summary =
                core::format_count(changes.changed) + " of " + count_of(changes.tensors, "tensor") + " moved";
            return edit;
          }};
}

QueuedEdit drop_edit(const std::string& file, const std::string& name) {
  const std::string pattern = ckpt::selector_of(name);
  return {line_of("select", "--exclude", pattern, file),
          [=](const ckpt::Checkpoint& checkpoint, const std::string& at) {
            ckpt::SelectChanges changes;
            Edit edit;
            edit.checkpoint = ckpt::select(checkpoint, {.exclude = {pattern}, .at = at}, &changes);
            edit.changed = changes.tensors_kept != changes.tensors || changes.values_kept != changes.values;
            edit.summary = core::format_count(changes.tensors - changes.tensors_kept) + " of " +
                           count_of(changes.tensors, "tensor") + " dropped";
            return edit;
          }};
}

Edit EditQueue::apply(const ckpt::Checkpoint& checkpoint, const std::string& at) const {
  Edit all;
  all.checkpoint = checkpoint;
  all.changed = false;
  for (const QueuedEdit& edit : edits_) {
    Edit done = edit.apply(all.checkpoint, at);
    all.checkpoint = std::move(done.checkpoint);
    all.changed |= done.changed;
    all.summary += (all.summary.empty() ? "" : "; ") + done.summary;
    all.steps.insert(all.steps.end(), done.steps.begin(), done.steps.end());
    all.warnings.insert(all.warnings.end(), done.warnings.begin(), done.warnings.end());
  }
  return all;
}

std::vector<std::string> EditQueue::preview(const ckpt::Checkpoint& checkpoint, const std::string& at) const {
  std::vector<std::string> out;
  ckpt::Checkpoint now = checkpoint;
  for (std::size_t i = 0; i < edits_.size(); ++i) {
    out.push_back(std::to_string(i + 1) + ". " + edits_[i].line);
    try {
      Edit done = edits_[i].apply(now, at);
      out.push_back("   " + done.summary);
      for (const std::string& step : done.steps) out.push_back("   " + step);
      now = std::move(done.checkpoint);
    } catch (const core::Error& error) {
      out.push_back(std::string("   cannot be made: ") + error.what());
      break;
    }
  }
  return out;
}

}  // namespace cli

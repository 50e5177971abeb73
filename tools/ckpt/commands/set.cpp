// ckpt set: plain values of a checkpoint, such as the epoch, changed, added and removed.

#include "libckpt/analyze/plain_values.h"
#include "libckpt/format/format.h"
#include "libckpt/transform/set_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string file;
  std::vector<std::string> pairs;
  std::vector<std::string> unset;
  bool create = false;
};

ckpt::ValueEdits parse_edits(const Options& options) {
  ckpt::ValueEdits edits{.set = {}, .unset = options.unset, .create = options.create, .at = {}};
  for (const std::string& pair : options.pairs) edits.set.push_back(ckpt::parse_value_to_set(pair));
  if (edits.set.empty() && edits.unset.empty()) throw Error(ErrorCode::usage, "give KEY=VALUE, or --unset KEY");
  return edits;
}

/// None goes wherever all plain values go.
bool holds_values(const ckpt::Format& format) {
  ckpt::Dict dict;
  dict.items.emplace_back(ckpt::Value::text("epoch"), ckpt::Value());
  ckpt::Checkpoint probe;
  probe.root = ckpt::Value::dict(std::move(dict));
  return format.write != nullptr && ckpt::find_obstacles(format, probe, {}).empty();
}

/// Found out before a key is looked for, the reason is the format and not the key.
void check_place(const ckpt::Checkpoint& checkpoint, const Options& options) {
  const ckpt::Format* format = options.output.empty() ? nullptr : ckpt::find_format_for(options.output);
  if (format == nullptr) format = ckpt::find_format(checkpoint.format);
  if (format != nullptr && !format->writes_as.empty()) format = ckpt::find_format(format->writes_as);
  if (format == nullptr || format->write == nullptr || holds_values(*format)) return;
  std::string text = "a " + std::string(format->title) + " holds tensors and no plain values to set";
  if (format->holds_metadata) text += "; the text that it has for the whole file is changed by 'ckpt meta'";
  throw Error(ErrorCode::unsupported, text);
}

std::string step_of(const ckpt::ValueChange& change) {
  std::string key = core::printable(change.key);
  auto text = [](const ckpt::Value& value) { return core::printable(ckpt::value_text(value)); };
  if (!change.from) return "+ " + key + ": " + text(*change.to);
  if (!change.to) return "- " + key + ": " + text(*change.from);
  return key + ": " + text(*change.from) + " -> " + text(*change.to);
}

void write_change(ckpt::JsonWriter& json, const ckpt::ValueChange& change) {
  json.begin_object();
  json.key("key").value(change.key);
  for (const auto& [name, value] : {std::pair("from", change.from), std::pair("to", change.to)}) {
    if (!value) continue;
    json.key(name).begin_object();
    json.key("type").value(ckpt::type_text(*value));
    json.key("value");
    ckpt::write_value(json, *value);
    json.end_object();
  }
  json.end_object();
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::ValueEdits& edits, std::vector<ckpt::ValueChange> changes) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = !changes.empty();
  std::size_t removed = edits.unset.size();
  if (!edits.set.empty()) {
    edit.summary = core::format_count(changes.size() - removed) + " of " + count_of(edits.set.size(), "value") + " set";
  }
  if (removed > 0) edit.summary += (edits.set.empty() ? "" : ", ") + count_of(removed, "value") + " removed";
  for (const ckpt::ValueChange& change : changes) edit.steps.push_back(step_of(change));
  edit.json = [changes = std::move(changes)](ckpt::JsonWriter& json) {
    json.key("changes").begin_array();
    for (const ckpt::ValueChange& change : changes) write_change(json, change);
    json.end_array();
  };
  return edit;
}

/// A key that is not there may be one that is to be.
Edit apply(const ckpt::Checkpoint& checkpoint, const ckpt::ValueEdits& edits) {
  ckpt::value_at(checkpoint.root, edits.at);  // that it is there, --create does not change
  std::vector<ckpt::ValueChange> changes;
  try {
    ckpt::Checkpoint edited = ckpt::set_values(checkpoint, edits, &changes);
    return describe(std::move(edited), edits, std::move(changes));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::key || edits.create || edits.set.empty()) throw;
    throw Error(ErrorCode::key, error.message() + " (--create adds a key that is not there)");
  }
}

int run(Context& context, Options& options) {
  ckpt::ValueEdits edits = parse_edits(options);
  options.files = {options.file};
  return run_edits(context, options, {"set", "set"}, [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
    check_place(checkpoint, options);
    edits.at = at;
    return apply(checkpoint, edits);
  });
}

}  // namespace

void add_set(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "set",
      "ckpt set best.pth epoch=12 optimizer.param_groups.0.lr=1e-4 --in-place\n  ckpt set best.pth --create "
      "note:text=final score:float=0.93 -o noted.pth\n  ckpt set best.pth --unset epoch -o bare.pth",
      "Change plain values of a checkpoint, such as epoch and learning rates. A value keeps its kind: an int takes an "
      "int, a float 1e-4, inf or nan, a bool true or false, a text anything. KEY:KIND=VALUE gives it another one, or "
      "that of a new key: int, float, bool, text or none. Tensors are never touched. In an object that stands in two "
      "places of the file, as a dict or list may, the value changes in both.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "checkpoint; FILE::path means the dict of that name inside")
      .required()
      .type_name("");
  command.add_option("VALUE", options->pairs, "value to set, named as 'ckpt ls --values' shows it")
      .type_name("KEY=VALUE");
  command.add_flag("--create", options->create, "add keys that are not there; their dict must be");
  command.add_option("--unset", options->unset, "remove this value; may be repeated").type_name("KEY").one_value_each();
  command
      .add_option("-o,--output", options->output,
                  "output, or - for standard output; a folder is made if its name ends in / (default: NAME.set.EXT "
                  "beside the input)")
      .type_name("OUT");
  add_write_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

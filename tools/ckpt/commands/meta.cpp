// ckpt meta: the file-level metadata, shown and edited.

#include <algorithm>

#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/metadata.h"
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
  std::vector<std::string> set;
  std::vector<std::string> unset;
  bool clear = false;
  std::string get;
};

ckpt::MetadataEdit parse_edit(const Options& options) {
  ckpt::MetadataEdit edit{{}, options.unset, options.clear};
  for (const std::string& pair : options.set) {
    std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorCode::usage, "--set " + core::quote(pair) + " is not of the form KEY=TEXT");
    }
    edit.set.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return edit;
}

/// What is set must not be left out with a warning, as a conversion does with metadata it happens to carry.
void check_place(const ckpt::Checkpoint& checkpoint, const Options& options) {
  const ckpt::Format* format = options.output.empty() ? nullptr : ckpt::find_format_for(options.output);
  if (format == nullptr) format = ckpt::find_format(checkpoint.format);
  if (format == nullptr || format->holds_metadata) return;
  std::string values = format->torch_save ? "its plain values are part of the tree (ckpt ls --values), " : "";
  throw Error(ErrorCode::unsupported, "a " + std::string(format->title) + " has no file-level metadata; " + values +
                                          "safetensors and .ckpt files have it");
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::MetadataChanges& changes) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = changes.any();
  edit.summary = core::format_count(changes.added.size()) + " added, " + core::format_count(changes.changed.size()) +
                 " changed, " + core::format_count(changes.removed.size()) + " removed";
  for (const std::string& key : changes.added) edit.steps.push_back("+ " + core::printable(key));
  for (const std::string& key : changes.changed) edit.steps.push_back("~ " + core::printable(key));
  for (const std::string& key : changes.removed) edit.steps.push_back("- " + core::printable(key));
  edit.json = [changes, pairs = edit.checkpoint.metadata](ckpt::JsonWriter& json) {
    auto write = [&](const char* name, const std::vector<std::string>& keys) {
      json.key(name).begin_array();
      for (const std::string& key : keys) json.value(key);
      json.end_array();
    };
    write("added", changes.added);
    write("changed_keys", changes.changed);
    write("removed", changes.removed);
    json.key("metadata").begin_object();
    for (const auto& [key, text] : pairs) json.key(key).value(text);
    json.end_object();
  };
  return edit;
}

int edit(Context& context, const Options& options) {
  ckpt::MetadataEdit wanted = parse_edit(options);
  return run_edits(context, options, {"meta", "meta"}, [&](const ckpt::Checkpoint& checkpoint, const std::string&) {
    check_place(checkpoint, options);
    ckpt::MetadataChanges changes;
    ckpt::Checkpoint edited = ckpt::edit_metadata(checkpoint, wanted, &changes);
    return describe(std::move(edited), changes);
  });
}

/// The text of one key as it is, for a script.
void print_one(Output& out, const ckpt::Checkpoint& checkpoint, const std::string& key) {
  const auto& pairs = checkpoint.metadata;
  auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  if (found == pairs.end()) throw Error(ErrorCode::key, "no metadata is named " + core::quote(key));
  out.print(found->second + "\n");
}

void print_all(Output& out, const Address& address, const ckpt::Checkpoint& checkpoint) {
  Table table({{"KEY"}, {"TEXT"}});
  for (const auto& [key, text] : checkpoint.metadata) table.add_row({core::printable(key), core::printable(text)});
  table.print(out);
  if (checkpoint.metadata.empty()) {
    out.print(core::printable(address.shown()) + ": no metadata in this " + format_title(checkpoint) + "\n");
  }
}

int show(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    Address address = parse_address(file);
    ckpt::Report report;
    ckpt::Checkpoint checkpoint = ckpt::open(address.path, options.look(report));
    say_report(options, address.path, report);
    if (options.json) {
      json.begin_object();
      json.key("path").value(address.shown());
      json.key("format").value(checkpoint.format);
      write_metadata(json, checkpoint);
      json.end_object();
      continue;
    }
    core::with_context(address.path.string(), [&] {
      if (!options.get.empty()) return print_one(context.out, checkpoint, options.get);
      print_all(context.out, address, checkpoint);
    });
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return 0;
}

}  // namespace

void add_meta(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "meta", "ckpt meta net.safetensors\n  ckpt meta net.safetensors --set license=MIT --in-place",
                  "Show the metadata of a file, or change it with --set, --unset and --clear.");
  auto options = std::make_shared<Options>();
  command.add_option("--set", options->set, "set this key to this text; may be repeated")
      .type_name("KEY=TEXT")
      .one_value_each();
  command.add_option("--unset", options->unset, "remove this key; may be repeated").type_name("KEY").one_value_each();
  command.add_flag("--clear", options->clear, "remove all keys that --set does not name");
  command.add_option("--get", options->get, "print only the text of this key").type_name("KEY");
  add_edit_options(command, *options, "NAME.meta.EXT beside the input");
  command.callback([&chosen, options] {
    bool edits = !options->set.empty() || !options->unset.empty() || options->clear;
    chosen = [options, edits](Context& context) { return edits ? edit(context, *options) : show(context, *options); };
  });
}

}  // namespace cli

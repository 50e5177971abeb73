// ckpt compact: the same values in a smaller file.

#include "libckpt/transform/compact.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::CompactOptions compact;
};

void write_changes(ckpt::JsonWriter& json, const ckpt::CompactChanges& changes) {
  json.key("tensors").value(changes.tensors);
  json.key("views_trimmed").value(changes.views_trimmed);
  json.key("view_bytes_saved").value(changes.view_bytes);
  json.key("duplicates").value(changes.duplicates);
  json.key("duplicate_bytes_saved").value(changes.duplicate_bytes);
  json.key("shared").begin_array();
  for (const auto& [duplicate, kept] : changes.shared) {
    json.begin_object().key("name").value(duplicate).key("with").value(kept).end_object();
  }
  json.end_array();
  json.key("untied").value(changes.untied);
  json.key("untied_bytes_added").value(changes.untied_bytes);
}

std::string old_size(const ckpt::Checkpoint& checkpoint) {
  std::error_code error;
  std::uint64_t size = std::filesystem::file_size(checkpoint.path, error);
  return error ? "" : ", file was " + core::format_size(size);
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::CompactChanges& changes, const ckpt::CompactOptions& options) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.checkpoint.detail = nullptr;  // written afresh, whatever the old file holds besides
  edit.summary = count_of(changes.views_trimmed, "view") + " trimmed (" + core::format_size(changes.view_bytes) + ")";
  if (options.dedupe) {
    edit.summary += ", " + count_of(changes.duplicates, "duplicate") + " shared (" +
                    core::format_size(changes.duplicate_bytes) + ")";
  }
  if (options.untie) {
    edit.summary +=
        ", " + count_of(changes.untied, "tensor") + " untied (" + core::format_size(changes.untied_bytes) + " more)";
  }
  edit.summary += old_size(edit.checkpoint);
  for (const auto& [duplicate, kept] : changes.shared) {
    edit.steps.push_back(core::printable(duplicate) + " shares the bytes of " + core::printable(kept));
  }
  edit.json = [changes](ckpt::JsonWriter& json) { write_changes(json, changes); };
  return edit;
}

int run(Context& context, const Options& options) {
  return run_edits(context, options, {"compact", "compact"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     ckpt::CompactChanges changes;
                     ckpt::Checkpoint part = checkpoint;
                     part.root = ckpt::value_at(checkpoint.root, at);
                     ckpt::Checkpoint small = ckpt::compact(part, options.compact, &changes);
                     return describe(std::move(small), changes, options.compact);
                   });
}

}  // namespace

void add_compact(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "compact",
      "ckpt compact net.pth               # writes net.compact.pth\n  ckpt compact --dedupe --in-place net.safetensors",
      "Write the same values in fewer bytes: small views no longer keep a large storage, "
      "old records, dead bytes and unused storages are left out.");
  auto options = std::make_shared<Options>();
  OptionSpec dedupe = command.add_flag("--dedupe", options->compact.dedupe,
                                       "tensors with equal bytes share them; they are then tied when loaded");
  command
      .add_flag("--untie", options->compact.untie,
                "every name gets its own bytes, so that formats without shared tensors can hold them all")
      .excludes(dedupe);
  add_edit_options(command, *options, "NAME.compact.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

// ckpt select: part of a checkpoint by selectors.

#include "libckpt/transform/select.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::Selection selection;
};

std::string kept_text(std::uint64_t kept, std::uint64_t all, std::string_view what) {
  return core::format_count(kept) + " of " + count_of(all, what);
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::SelectChanges& changes) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = changes.tensors_kept != changes.tensors || changes.values_kept != changes.values;
  edit.summary = kept_text(changes.tensors_kept, changes.tensors, "tensor");
  if (changes.values > 0) edit.summary += " and " + kept_text(changes.values_kept, changes.values, "plain value");
  edit.summary += " kept";
  edit.json = [changes](ckpt::JsonWriter& json) {
    json.key("tensors").value(changes.tensors);
    json.key("tensors_kept").value(changes.tensors_kept);
    json.key("values").value(changes.values);
    json.key("values_kept").value(changes.values_kept);
  };
  if (edit.checkpoint.root.is(ckpt::Value::Kind::dict)) {
    for (const ckpt::NamedEntry& entry : ckpt::list_entries(edit.checkpoint.root)) {
      edit.steps.push_back("keep " + core::printable(entry.name));
    }
  }
  return edit;
}

int run(Context& context, const Options& options) {
  return run_edits(context, options, {"select", "selected"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     ckpt::SelectOptions select{options.selection.include, options.selection.exclude, at};
                     ckpt::SelectChanges changes;
                     ckpt::Checkpoint selected = ckpt::select(checkpoint, select, &changes);
                     return describe(std::move(selected), changes);
                   });
}

}  // namespace

void add_select(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "select",
                                    "ckpt select --include 'model.*' best.pth -o model.pth\n  ckpt select --exclude "
                                    "'*.num_batches_tracked' net.pth -o small.pth",
                                    "Keep part of a checkpoint. '*' matches any characters, dots too; a pattern that "
                                    "names a dict or a module means all of it; --exclude wins.");
  auto options = std::make_shared<Options>();
  add_selection_options(command, options->selection);
  add_edit_options(command, *options, "NAME.selected.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

// ckpt add-prefix: puts a prefix before every key of a state dict.

#include "libckpt/transform/prefix.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/key_report.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::AddOptions add;
};

int run(Context& context, const Options& options) {
  return run_edits(context, options, {"add-prefix", "prefixed"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     ckpt::AddOptions add = options.add;
                     add.at = at;
                     ckpt::KeyChanges changes;
                     ckpt::Checkpoint prefixed = ckpt::add_prefix(checkpoint, add, &changes);
                     return key_edit(std::move(prefixed), changes);
                   });
}

}  // namespace

void add_add_prefix(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "add-prefix",
                  "ckpt add-prefix --prefix encoder. net.pth -o enc.pth\n  ckpt add-prefix "
                  "best.pth::model     # 'module.', as DataParallel wants it",
                  "Add a prefix to every key. Where a file has several state dicts, name one: FILE::model.");
  auto options = std::make_shared<Options>();
  command.add_option("--prefix", options->add.prefix, "prefix, whole parts between dots (default: module.)")
      .type_name("PREFIX");
  add_edit_options(command, *options, "NAME.prefixed.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

// ckpt strip-prefix: takes what a wrapper put before every key off again.

#include "libckpt/transform/prefix.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/key_report.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::StripOptions strip;
};

int run(Context& context, const Options& options) {
  return run_edits(context, options, {"strip-prefix", "plain"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     ckpt::StripOptions strip = options.strip;
                     strip.at = at;
                     ckpt::KeyChanges changes;
                     ckpt::Checkpoint stripped = ckpt::strip_prefix(checkpoint, strip, &changes);
                     return key_edit(std::move(stripped), changes);
                   });
}

}  // namespace

void add_strip_prefix(CLI::App& app, Command& chosen) {
  CLI::App& command = add_command(app, "strip-prefix", "ckpt strip-prefix net.pth           # writes net.plain.pth",
                                  "Take a prefix such as 'module.' off every key that has it.");
  auto options = std::make_shared<Options>();
  CLI::Option* prefix =
      command.add_option("--prefix", options->strip.prefix, "whole dotted components (default: module.)")
          ->type_name("PREFIX");
  command.add_flag("--repeat", options->strip.repeat, "again while a key still begins with it (module.module.)");
  command
      .add_flag("--wrappers", options->strip.wrappers,
                "all components that known wrappers add (module, _orig_mod, _fsdp_wrapped_module, "
                "_checkpoint_wrapped_module, _forward_module), at any depth")
      ->excludes(prefix);
  add_edit_options(command, *options, "NAME.plain.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

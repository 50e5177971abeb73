// ckpt strip-prefix: takes what a wrapper put before every key off again.

#include "libckpt/transform/prefix.h"

#include <algorithm>

#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/key_report.h"

namespace cli {
namespace {

struct Options : EditOptions {
  ckpt::StripOptions strip;
};

constexpr std::size_t kMaxStarts = 5;

/// Nothing to do is no failure, but hardly what was wanted.
std::string describe_nothing(const ckpt::StripOptions& options, const ckpt::KeyChanges& changes) {
  std::string text = options.wrappers ? "no key has a part that a known wrapper adds"
                                      : "no key begins with " + core::quote(options.prefix);
  if (!changes.inside.empty()) {
    return text + "; some have it further inside (" + core::quote(changes.inside) + "): --anywhere removes it there";
  }
  std::string starts;
  for (std::size_t i = 0; i < std::min(changes.starts.size(), kMaxStarts); ++i) {
    const auto& [start, count] = changes.starts[i];
    starts += (i == 0 ? "" : ", ") + core::quote(start) + " (" + core::format_count(count) + ")";
  }
  if (changes.starts.size() > kMaxStarts) starts += ", ...";
  return text + (starts.empty() ? "" : "; the keys begin with " + starts);
}

int run(Context& context, const Options& options) {
  return run_edits(context, options, {"strip-prefix", "plain"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     ckpt::StripOptions strip = options.strip;
                     strip.at = at;
                     ckpt::KeyChanges changes;
                     ckpt::Checkpoint stripped = ckpt::strip_prefix(checkpoint, strip, &changes);
                     Edit edit = key_edit(std::move(stripped), changes);
                     if (!edit.changed) edit.warnings.push_back(describe_nothing(strip, changes));
                     return edit;
                   });
}

}  // namespace

void add_strip_prefix(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "strip-prefix",
                                    "ckpt strip-prefix net.pth           # writes net.plain.pth\n  ckpt strip-prefix "
                                    "--prefix model. epoch*.pth -o plain/",
                                    "Remove a prefix such as 'module.' from every key that has it.");
  auto options = std::make_shared<Options>();
  OptionSpec prefix =
      command.add_option("--prefix", options->strip.prefix, "prefix, whole parts between dots (default: module.)")
          .type_name("PREFIX");
  command.add_flag("--repeat", options->strip.repeat, "repeat while a key still begins with it (module.module.)");
  OptionSpec anywhere = command.add_flag("--anywhere", options->strip.anywhere,
                                         "also inside a key, once per key (with --repeat: every time): "
                                         "features.module.0.w becomes features.0.w");
  command
      .add_flag("--wrappers", options->strip.wrappers,
                "all parts that known wrappers add (module, _orig_mod, _fsdp_wrapped_module, "
                "_checkpoint_wrapped_module, _forward_module), at any depth")
      .excludes(prefix)
      .excludes(anywhere);
  add_edit_options(command, *options, "NAME.plain.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli

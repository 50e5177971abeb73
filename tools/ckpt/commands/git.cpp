// ckpt git: lets `git diff` speak of tensors.

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/git_driver.h"
#include "tools/ckpt/exit_code.h"

namespace cli {
namespace {

struct Options {
  GitScope scope;
  bool json = false;
  bool quiet = false;
  bool dry_run = false;
  std::string file;
};

void write_json(Output& out, const GitDriver& driver, bool changed) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("scope").value(driver.scope.global ? "global" : "repository");
  json.key("attributes").value(driver.attributes.string());
  json.key("patterns").value(driver.has_patterns);
  json.key("textconv").value(driver.configured);
  json.key("installed").value(driver.complete());
  json.key("changed").value(changed);
  json.end_object();
  out.print(json.text() + "\n");
}

int install(Context& context, const Options& options) {
  GitDriver driver = locate_driver(options.scope);
  if (!options.dry_run) install_driver(driver);
  GitDriver now = options.dry_run ? driver : locate_driver(options.scope);
  if (options.json) {
    write_json(context.out, now, !options.dry_run);
  } else if (options.dry_run) {
    context.out.print(core::printable(driver.attributes.string()) + ": these patterns would be added\n");
    for (const std::string& pattern : driver_patterns()) context.out.print("  " + pattern + "\n");
    context.out.print("git config diff.ckpt.textconv would be " + core::quote(textconv_command()) + "\n");
  } else if (!options.quiet) {
    context.out.print(core::printable(now.attributes.string()) + ": checkpoints use the diff driver 'ckpt'\n");
    context.out.print("git config diff.ckpt.textconv = " + core::printable(now.configured) + "\n");
  }
  return kDone;
}

int uninstall(Context& context, const Options& options) {
  GitDriver driver = locate_driver(options.scope);
  bool there = driver.has_patterns || !driver.configured.empty();
  if (!options.dry_run) uninstall_driver(driver);
  if (options.json) {
    write_json(context.out, options.dry_run ? driver : locate_driver(options.scope), there && !options.dry_run);
  } else if (!options.quiet) {
    std::string what = !there ? "the driver was not installed" : options.dry_run ? "would be removed" : "removed";
    context.out.print(core::printable(driver.attributes.string()) + ": " + what + "\n");
  }
  return kDone;
}

int status(Context& context, const Options& options) {
  GitDriver driver = locate_driver(options.scope);
  if (options.json) {
    write_json(context.out, driver, false);
  } else if (!options.quiet) {
    std::string fix = std::string("run 'ckpt git install") + (options.scope.global ? " --global'" : "'");
    context.out.print("patterns  " + core::printable(driver.attributes.string()) + ": " +
                      (driver.has_patterns ? "there" : "missing; " + fix) + "\n");
    context.out.print("textconv  " +
                      (driver.configured.empty() ? "missing; " + fix : core::printable(driver.configured)) + "\n");
  }
  return driver.complete() ? kDone : kNo;
}

using Run = int (*)(Context&, const Options&);

void add_part(CommandSpec git, Command& chosen, const std::string& name, const std::string& description, Run run) {
  CommandSpec command = add_command(git, name, "ckpt git " + name + "\n  ckpt git " + name + " --global", description);
  auto options = std::make_shared<Options>();
  command.add_flag("--global", options->scope.global, "for all repositories of the user, not only this one");
  if (name != "status") command.add_flag("-n,--dry-run", options->dry_run, "say what would be done and write nothing");
  add_json_options(command, options->json);
  command.add_flag("-q,--quiet", options->quiet, "say nothing");
  command.callback(
      [&chosen, options, run] { chosen = [options, run](Context& context) { return run(context, *options); }; });
}

}  // namespace

void add_git(CommandSpec app, Command& chosen) {
  CommandSpec git = add_command(app, "git", "ckpt git install    # then: git diff HEAD~1 -- net.pth\n  ckpt git status",
                                "Let git show which tensors changed: a diff driver for checkpoints.");
  git.require_subcommand();
  add_part(git, chosen, "install", "Write patterns to .gitattributes and the driver to git's configuration.", install);
  add_part(git, chosen, "uninstall", "Remove both again.", uninstall);
  add_part(git, chosen, "status", "Say whether the driver is installed; exit 1 when not.", status);
  CommandSpec text = add_command(git, "textconv", "ckpt git textconv net.pth\n  ckpt git textconv net.safetensors",
                                 "Print a checkpoint as the text that git compares.");
  auto options = std::make_shared<Options>();
  text.add_option("FILE", options->file, "checkpoint").required().type_name("");
  text.callback([&chosen, options] {
    chosen = [options](Context& context) {
      context.out.print(text_of_checkpoint(options->file));
      return kDone;
    };
  });
}

}  // namespace cli

#include "tools/ckpt/command_line.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/exit_code.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

void add_commands(CLI::App& app, Command& chosen) {
  app.require_subcommand(1);
  app.set_version_flag("--version", CKPT_VERSION, "print the version");
  app.footer("Example:\n  ckpt strip-prefix net.pth");
  app.set_help_flag("-h,--help", "print this text");
  set_help_style(app);
  add_ls(app, chosen);
  add_info(app, chosen);
  add_diff(app, chosen);
  add_verify(app, chosen);
  add_strip_prefix(app, chosen);
  add_add_prefix(app, chosen);
  add_rename(app, chosen);
  add_remap(app, chosen);
  add_select(app, chosen);
  add_convert(app, chosen);
  add_why(app, chosen);
  add_fix(app, chosen);
  add_zoo(app, chosen);
}

/// A word in the place of a command that is none gets its own message; CLI11 would only say that one is missing.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  auto named = app.get_subcommands([&](const CLI::App* command) { return command->check_name(argv[1]); });
  if (!named.empty()) return;
  throw Error(ErrorCode::usage, "no command is named " + core::quote(argv[1]) + "; see 'ckpt --help'");
}

Command say(std::string text) {
  return [text = std::move(text)](Context& context) {
    context.out.print(text);
    return kDone;
  };
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  CLI::App app("Looks into model checkpoints and changes them: keys, devices, formats.", "ckpt");
  Command chosen;
  add_commands(app, chosen);
  check_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    auto used = app.get_subcommands();
    return say(used.empty() ? app.help() : used.front()->help("ckpt"));
  } catch (const CLI::CallForVersion&) {
    return say("ckpt " CKPT_VERSION "\n");
  } catch (const CLI::ParseError& error) {
    auto used = app.get_subcommands();
    std::string program = used.empty() ? "ckpt" : "ckpt " + used.front()->get_name();
    throw Error(ErrorCode::usage, std::string(error.what()) + "; see '" + program + " --help'");
  }
  return chosen;
}

}  // namespace cli

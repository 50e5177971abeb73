// The program `ckpt`: reads the command line, runs one command, turns errors into one line and an exit code.

#include <csignal>
#include <new>

#include "libcore/base/error.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/interrupt.h"

namespace {

using namespace cli;

void add_commands(CLI::App& app, Command& chosen) {
  app.require_subcommand(1);
  app.set_version_flag("--version", "ckpt " CKPT_VERSION);
  app.footer("Example:\n  ckpt strip-prefix net.pth");
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
}

/// "ckpt ls" where a subcommand was recognised, for messages about its options.
std::string program_name(const CLI::App& app) {
  auto used = app.get_subcommands();
  return used.empty() ? "ckpt" : "ckpt " + used.front()->get_name();
}

int run(int argc, char** argv) {
  CLI::App app("Looks into model checkpoints and changes them: keys, devices, formats.", "ckpt");
  Command chosen;
  Context context;
  add_commands(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    context.out.print((app.get_subcommands().empty() ? app : *app.get_subcommands().front()).help());
    chosen = [](Context&) { return kDone; };
  } catch (const CLI::CallForVersion&) {
    context.out.print("ckpt " CKPT_VERSION "\n");
    chosen = [](Context&) { return kDone; };
  } catch (const CLI::ParseError& error) {
    std::string program = program_name(app);
    throw core::Error(core::ErrorCode::usage, std::string(error.what()) + "; see '" + program + " --help'");
  }
  int code = chosen(context);
  context.out.flush();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `ckpt ls | head` ends quietly, also under a parent that ignores it
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  int code = kBug;
  try {
    code = run(argc, argv);
  } catch (const core::Error& error) {
    if (pending_interrupt() == 0) print_error_line(error_line(error, "ckpt"));
    code = exit_code(error.code());
  } catch (const std::bad_alloc&) {
    print_error_line("ckpt: out of memory; try a lower --max-memory or fewer threads (-j)");
    code = kIo;
  } catch (const std::exception& error) {
    print_error_line(error_line(core::Error(core::ErrorCode::internal, error.what()), "ckpt"));
  }
  finish_interrupt();
  return code;
}

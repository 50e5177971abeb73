// The program `ckpt-run`: the commands of ckpt that need the runtime. ckpt starts it; its words are those of ckpt.

#include <CLI/CLI.hpp>

#include "libcore/base/error.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/help/help.h"
#include "tools/ckpt/line/open_addresses.h"
#include "tools/ckpt/run_main.h"
#include "tools/ckpt/sudden_end.h"
#include "tools/run/devices.h"
#include "tools/run/zoo_activations.h"
#include "tools/run/zoo_export.h"
#include "tools/run/zoo_info.h"
#include "tools/run/zoo_run.h"

namespace {

using namespace cli;

struct Chosen {
  Command command;
  bool json = false;
  bool lines = false;
};

/// Whether the command was given --json or --jsonl.
void note_json(CommandSpec command, Chosen& chosen) {
  chosen.lines = command.was_given("--jsonl");
  chosen.json = chosen.lines || command.was_given("--json");
}

Chosen parse(int argc, char** argv) {
  CLI::App app("Runs models for ckpt.", "ckpt-run");
  set_help_style(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", "ckpt-run " CKPT_VERSION);
  CLI::App* zoo = app.add_subcommand("zoo", "Known models.");
  zoo->require_subcommand(1);
  auto run = std::make_shared<RunOptions>();
  auto info = std::make_shared<ZooInfoOptions>();
  auto to_onnx = std::make_shared<ZooExportOptions>();
  auto devices = std::make_shared<DevicesOptions>();
  auto activations = std::make_shared<ActivationOptions>();
  CommandSpec run_command = define_zoo_run(CommandSpec(*zoo), *run);
  CommandSpec info_command = define_zoo_info(CommandSpec(*zoo), *info);
  CommandSpec export_command = define_zoo_export(CommandSpec(*zoo), *to_onnx);
  CommandSpec devices_command = define_devices(CommandSpec(app), *devices);
  CommandSpec activations_command = define_zoo_activations(CommandSpec(*zoo), *activations);
  Chosen chosen;
  run_command.callback([&] {
    note_json(run_command, chosen);
    chosen.command = [run](Context& context) { return run_zoo(context, *run); };
  });
  info_command.callback([&] {
    note_json(info_command, chosen);
    chosen.command = [info](Context& context) { return run_zoo_info(context, *info); };
  });
  export_command.callback([&] {
    note_json(export_command, chosen);
    chosen.command = [to_onnx](Context& context) { return run_zoo_export(context, *to_onnx); };
  });
  devices_command.callback([&] {
    note_json(devices_command, chosen);
    chosen.command = [devices](Context& context) { return run_devices(context, *devices); };
  });
  activations_command.callback(
      [&] { chosen.command = [activations](Context& context) { return run_zoo_activations(context, *activations); }; });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // --help, --version
    if (!asked) throw core::Error(core::ErrorCode::usage, std::string(error.what()) + "; see 'ckpt zoo run --help'");
    const std::string text = error.get_name() == "CallForVersion" ? app.version() + "\n" : app.help();
    chosen.command = [text](Context& context) {
      context.out.print(text);
      return static_cast<int>(kDone);
    };
  }
  return chosen;
}

int run(int argc, char** argv) {
  const Chosen chosen = parse(argc, argv);
  let_open_addresses();
  Context context;
  if (chosen.lines) {
    context.out.expect_json({.lines = true});
  } else if (chosen.json) {
    context.out.expect_json();
  }
  const int code = chosen.command(context);
  context.out.finish();
  return code;
}

/// Before the libraries are initialised, which allocates too.
void get_ready(int argc, char** argv, char** /*environment*/) {
  end_by_line_when_out_of_memory({.json = wants_json(argc, argv)});
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**, char**) = get_ready;

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, run);
}

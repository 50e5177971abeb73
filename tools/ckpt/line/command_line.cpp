#include "tools/ckpt/line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>

#include "libckpt/format/format.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/help/help.h"
#include "tools/ckpt/line/command_guess.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

ColorWhen parse_color(const std::string& when) {
  if (when == "auto") return ColorWhen::automatic;
  if (when == "always") return ColorWhen::always;
  if (when == "never") return ColorWhen::never;
  throw Error(ErrorCode::usage, core::quote(when) + " is not auto, always or never");
}

/// --color, for the program and for every command that does something.
void add_color(CLI::App& app, ColorWhen& color) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) add_color(*command, color);
  if (app.get_parent() != nullptr && !subcommands(app).empty()) return;
  CommandSpec(app)
      .add_option(
          "--color", [&color](const std::string& when) { color = parse_color(when); },
          "color verdicts: auto (on a terminal, unless NO_COLOR is set), always or never (default: auto)")
      .type_name("WHEN");
}

/// `word`: the first one, which usually is the command.
void add_commands(CLI::App& app, Command& chosen, ColorWhen& color, const std::string& word) {
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", CKPT_VERSION, "print the version");
  app.footer(
      "Examples:\n"
      "  ckpt why best.pth --for resnet50  # why it does not load, and what fixes it\n"
      "  ckpt strip-prefix net.pth         # writes net.plain.pth\n"
      "  ckpt help strip-prefix            # says more about one command");
  app.set_help_flag("-h,--help", "print this text");
  set_help_style(app);
  if (!add_command_alone(CommandSpec(app), chosen, word)) add_all_commands(CommandSpec(app), chosen);
  add_color(app, color);
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// A word in the place of a command that is none gets its own message; CLI11 would only say that one is missing.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  auto named = app.get_subcommands([&](const CLI::App* command) { return command->check_name(argv[1]); });
  if (!named.empty()) return;
  throw Error(ErrorCode::usage, "no command is named " + core::quote(argv[1]) + did_you_mean_command(app, argv[1]) +
                                    "; see 'ckpt --help'");
}

/// The command that the words reached, and what it is called with those above it.
struct Reached {
  const CLI::App* command;
  std::string name;
};

Reached reached(const CLI::App& app) {
  Reached at{&app, "ckpt"};
  for (auto used = app.get_subcommands(); !used.empty(); used = at.command->get_subcommands()) {
    at = {used.front(), at.name + " " + used.front()->get_name()};
  }
  return at;
}

/// The words that no option and no positional took: an option with a typing mistake, or a word too many.
std::string describe_extras(const CLI::App& app, const CLI::App& command, const std::string& fallback) {
  std::vector<std::string> extras = command.remaining(true);
  if (extras.empty() && &command != &app && !app.remaining().empty()) {
    return core::quote(app.remaining().front()) + " stands before the command; options of " +
           core::quote(command.get_name()) + " go behind it";
  }
  if (extras.empty()) return fallback;
  const std::string& word = extras.front();
  std::string name = word.substr(0, word.find('='));
  if (!word.starts_with('-')) {
    bool nested = !subcommands(command).empty();
    if (nested) return "no command is named " + core::quote(word) + did_you_mean_command(command, word);
    return "unexpected word " + core::quote(word);
  }
  return "no option is named " + core::quote(name) + did_you_mean(name, option_names(command));
}

/// "" in the place of a file is what a shell makes of a variable that is not set.
void check_files(const Reached& at) {
  constexpr std::array<std::string_view, 8> kFiles = {"FILE", "A", "B", "IN", "OUT", "DIR", "RULES", "FOLDER"};
  for (const CLI::Option* option : at.command->get_options()) {
    const std::string type = option->get_type_name();
    const std::string word = type.empty() && option->get_positional() ? option->get_name(true) : type;
    const auto& given = option->results();
    if (std::find(kFiles.begin(), kFiles.end(), word) == kFiles.end()) continue;
    if (std::find(given.begin(), given.end(), "") == given.end()) continue;
    throw Error(ErrorCode::usage, option->get_name() + " is empty: expected a file name; see '" + at.name + " --help'");
  }
}

/// A command that writes several files, or the file and its name, has no use for a stream; it must not make a file "-".
void check_stream(const Reached& at) {
  constexpr std::array<std::string_view, 7> kNoStream = {"split",  "join",    "reshard", "publish",
                                                         "rescue", "reindex", "man"};
  const std::string name = at.command->get_name();
  if (std::find(kNoStream.begin(), kNoStream.end(), name) == kNoStream.end()) return;
  for (const char* flag : {"--output", "--write"}) {
    const CLI::Option* option = at.command->get_option_no_throw(flag);
    if (option == nullptr || option->count() == 0 || option->results().back() != "-") continue;
    throw Error(ErrorCode::usage,
                std::string(flag) + " -: '" + at.name + "' cannot write to standard output; name a file or a folder");
  }
}

/// What git calls for a file of a repository: `ckpt git textconv FILE`. Repositories that were set up before the driver
/// said "--" name a file "-o x.pth" like this too.
bool is_textconv_of_dashed_file(int argc, char** argv) {
  std::error_code ignored;
  return argc == 4 && std::string_view(argv[1]) == "git" && std::string_view(argv[2]) == "textconv" &&
         argv[3][0] == '-' && std::filesystem::exists(argv[3], ignored);
}

/// The words last first, as CLI11 takes them. "-::model" would be an option to it.
std::vector<std::string> words_of(int argc, char** argv) {
  if (is_textconv_of_dashed_file(argc, argv)) return {argv[3], "--", argv[2], argv[1]};
  std::vector<std::string> words;
  for (int i = argc; i-- > 1;) {
    std::string_view word = argv[i];
    words.push_back(word.starts_with("-::") ? "/dev/stdin" + std::string(word.substr(1)) : std::string(word));
  }
  return words;
}

/// Whether the chosen command was given `flag`.
bool has_flag(const CLI::App& app, const std::string& flag) {
  for (const CLI::App* command : app.get_subcommands()) {
    const CLI::Option* option = command->get_option_no_throw(flag);
    if ((option != nullptr && option->count() > 0) || has_flag(*command, flag)) return true;
  }
  return false;
}

/// Whether the chosen command takes several files and so answers with a list.
bool takes_files(const CLI::App& command) {
  for (const CLI::Option* option : positionals_of(command)) {
    if (option->get_name(true) == "FILE" && option->get_expected_max() > 1) return true;
  }
  return false;
}

Command with_color(Command command, ColorWhen color) {
  return [command = std::move(command), color](Context& context) {
    context.out.use_colors(color);
    return command(context);
  };
}

/// All that is printed as JSON carries the version of its form.
Command with_schema(Command command, JsonShape shape) {
  return [command = std::move(command), shape](Context& context) {
    context.out.expect_json(shape);
    return command(context);
  };
}

Command say(std::string text) {
  return [text = std::move(text)](Context& context) {
    context.out.print(text);
    return kDone;
  };
}

/// The version stands in every JSON document; formats are what a program may want to know beside it.
Command say_version_json() {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("name").value("ckpt");
  json.key("formats").begin_array();
  for (const ckpt::Format* format : ckpt::formats()) {
    json.begin_object();
    json.key("name").value(format->name);
    json.key("title").value(format->title);
    json.key("read").value(format->read != nullptr);
    json.key("write").value(format->write != nullptr);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return say(json.take() + "\n");
}

}  // namespace

Command parse_command_line(int argc, char** argv) {
  CLI::App app("Looks into model checkpoints and changes them: keys, devices, formats.", "ckpt");
  Command chosen;
  ColorWhen color = ColorWhen::automatic;
  add_commands(app, chosen, color, argc > 1 ? argv[1] : "");
  check_command(app, argc, argv);
  try {
    app.parse(words_of(argc, argv));
    check_files(reached(app));
    check_stream(reached(app));
  } catch (const CLI::CallForHelp&) {
    Reached at = reached(app);
    std::size_t last = at.name.rfind(' ');
    return say(last == std::string::npos ? app.help() : at.command->help(at.name.substr(0, last)));
  } catch (const CLI::CallForVersion&) {
    return wants_json(argc, argv) ? with_schema(say_version_json(), {}) : say("ckpt " CKPT_VERSION "\n");
  } catch (const CLI::ExtrasError& error) {
    Reached at = reached(app);
    throw Error(ErrorCode::usage, describe_extras(app, *at.command, error.what()) + "; see '" + at.name + " --help'");
  } catch (const CLI::ParseError& error) {
    Reached at = reached(app);
    bool lacks_command =
        dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !subcommands(*at.command).empty();
    std::string what = lacks_command ? describe_extras(app, *at.command, at.name + " needs a command") : error.what();
    throw Error(ErrorCode::usage, what + "; see '" + at.name + " --help'");
  }
  chosen = with_color(std::move(chosen), color);
  const bool lines = has_flag(app, "--jsonl");
  if (!lines && !has_flag(app, "--json")) return chosen;
  return with_schema(std::move(chosen), {.lines = lines, .of_files = takes_files(*reached(app).command)});
}

}  // namespace cli

#pragma once
// What the tool says about itself: the groups of commands, the look of --help, and the parts of it that man pages use
// too, so that both say the same. Thread safety: pure. Use: set_help_style(app);

#include <string>
#include <vector>

#include "tools/ckpt/line/arguments.h"

namespace cli {

struct CommandGroup {
  std::string title;
  std::vector<std::string> names;  ///< in the order of the list, those that exist
};

/// All visible commands of the program by what they are for.
std::vector<CommandGroup> command_groups(const CLI::App& app);

/// Visible subcommands, in the order in which they were added.
std::vector<const CLI::App*> subcommands(const CLI::App& app);

/// The text of --help for the command that the words name, "zoo run"; of `app` itself for none. Error(usage) for a
/// command that is not there.
std::string help_of(const CLI::App& app, const std::vector<std::string>& words);

/// The examples of a command's footer, without their label.
std::string examples_of(const CLI::App& command);

/// The first clause of a description: "Compare two checkpoints of any formats".
std::string summary_of(const CLI::App& command);

/// Visible options, without and with a name before "-".
std::vector<const CLI::Option*> options_of(const CLI::App& command);
std::vector<const CLI::Option*> positionals_of(const CLI::App& command);
/// "-o,--output OUT".
std::string option_text(const CLI::Option& option);
/// "FILE...", "[OUT]".
std::string positional_text(const CLI::Option& option);
/// "ckpt convert [OPTIONS] IN [OUT]".
std::string synopsis_of(const CLI::App& command, const std::string& program);

/// Breaks at spaces so that no line is longer than `width`, where that is possible.
std::string wrap(const std::string& text, std::size_t width);

/// The look of --help: the examples first, plain columns, commands in groups.
void set_help_style(CLI::App& app);

}  // namespace cli

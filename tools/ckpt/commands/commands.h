#pragma once
// All commands. Each adds itself to the command line and, when chosen, leaves what is to be run in `chosen`.
// Thread safety: one thread. Use: add_all_commands(app, chosen).

#include "tools/ckpt/line/options.h"

namespace cli {

/// Adds them all.
void add_all_commands(CommandSpec app, Command& chosen);
/// Adds the one of this name, which spares a short run the options of all others. False for a word that names none, and
/// for what is about the tool itself and needs to see all.
bool add_command_alone(CommandSpec app, Command& chosen, const std::string& word);

#define COMMAND(group, name) void add_##name(CommandSpec app, Command& chosen);
#include "tools/ckpt/commands/command_list.inc"
#undef COMMAND

/// Below `ckpt zoo`.
void add_zoo_rules(CommandSpec zoo, Command& chosen);
void add_zoo_info(CommandSpec zoo, Command& chosen);
void add_zoo_export(CommandSpec zoo, Command& chosen);
void add_zoo_run(CommandSpec zoo, Command& chosen);

}  // namespace cli

#pragma once
// All subcommands. Each adds itself to the command line and, when chosen, leaves what is to be run in `chosen`.
// Thread safety: one thread. Use: add_ls(app, chosen).

#include "tools/ckpt/options.h"

namespace cli {

/// Adds them all (commands.cpp).
void add_all_commands(CommandSpec app, Command& chosen);

void add_devices(CommandSpec app, Command& chosen);
void add_help(CommandSpec app, Command& chosen);
void add_doctor(CommandSpec app, Command& chosen);
void add_git(CommandSpec app, Command& chosen);
void add_meta(CommandSpec app, Command& chosen);
void add_tree(CommandSpec app, Command& chosen);
void add_ls(CommandSpec app, Command& chosen);
void add_cast(CommandSpec app, Command& chosen);
void add_info(CommandSpec app, Command& chosen);
void add_stat(CommandSpec app, Command& chosen);
void add_cat(CommandSpec app, Command& chosen);
void add_hash(CommandSpec app, Command& chosen);
void add_diff(CommandSpec app, Command& chosen);
void add_align(CommandSpec app, Command& chosen);
void add_scan(CommandSpec app, Command& chosen);
void add_verify(CommandSpec app, Command& chosen);
void add_strip_prefix(CommandSpec app, Command& chosen);
void add_add_prefix(CommandSpec app, Command& chosen);
void add_rename(CommandSpec app, Command& chosen);
void add_remap(CommandSpec app, Command& chosen);
void add_select(CommandSpec app, Command& chosen);
void add_convert(CommandSpec app, Command& chosen);
void add_split(CommandSpec app, Command& chosen);
void add_join(CommandSpec app, Command& chosen);
void add_compact(CommandSpec app, Command& chosen);
void add_reindex(CommandSpec app, Command& chosen);
void add_rescue(CommandSpec app, Command& chosen);
void add_publish(CommandSpec app, Command& chosen);
void add_avg(CommandSpec app, Command& chosen);
void add_optim(CommandSpec app, Command& chosen);
void add_completion(CommandSpec app, Command& chosen);
void add_man(CommandSpec app, Command& chosen);
void add_why(CommandSpec app, Command& chosen);
void add_fix(CommandSpec app, Command& chosen);
void add_zoo(CommandSpec app, Command& chosen);
/// Below "zoo".
void add_zoo_rules(CommandSpec zoo, Command& chosen);
/// Below `ckpt zoo`.
void add_zoo_run(CommandSpec zoo, Command& chosen);

}  // namespace cli

#pragma once
// All subcommands. Each adds itself to the command line and, when chosen, leaves what is to be run in `chosen`.
// Thread safety: one thread. Use: add_ls(app, chosen).

#include "tools/ckpt/options.h"

namespace cli {

/// Adds them all (commands.cpp).
void add_all_commands(CLI::App& app, Command& chosen);

void add_devices(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);
void add_git(CLI::App& app, Command& chosen);
void add_meta(CLI::App& app, Command& chosen);
void add_tree(CLI::App& app, Command& chosen);
void add_ls(CLI::App& app, Command& chosen);
void add_cast(CLI::App& app, Command& chosen);
void add_info(CLI::App& app, Command& chosen);
void add_stat(CLI::App& app, Command& chosen);
void add_cat(CLI::App& app, Command& chosen);
void add_hash(CLI::App& app, Command& chosen);
void add_diff(CLI::App& app, Command& chosen);
void add_align(CLI::App& app, Command& chosen);
void add_scan(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_strip_prefix(CLI::App& app, Command& chosen);
void add_add_prefix(CLI::App& app, Command& chosen);
void add_rename(CLI::App& app, Command& chosen);
void add_remap(CLI::App& app, Command& chosen);
void add_select(CLI::App& app, Command& chosen);
void add_convert(CLI::App& app, Command& chosen);
void add_split(CLI::App& app, Command& chosen);
void add_join(CLI::App& app, Command& chosen);
void add_compact(CLI::App& app, Command& chosen);
void add_reindex(CLI::App& app, Command& chosen);
void add_publish(CLI::App& app, Command& chosen);
void add_avg(CLI::App& app, Command& chosen);
void add_optim(CLI::App& app, Command& chosen);
void add_completion(CLI::App& app, Command& chosen);
void add_man(CLI::App& app, Command& chosen);
void add_why(CLI::App& app, Command& chosen);
void add_fix(CLI::App& app, Command& chosen);
void add_zoo(CLI::App& app, Command& chosen);
/// Below "zoo".
void add_zoo_rules(CLI::App& zoo, Command& chosen);
/// Below `ckpt zoo`.
void add_zoo_run(CLI::App& zoo, Command& chosen);

}  // namespace cli

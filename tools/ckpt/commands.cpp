// The list of all subcommands, in the order in which --help shows them within a group.

#include "tools/ckpt/commands.h"

namespace cli {

void add_all_commands(CommandSpec app, Command& chosen) {
  add_ls(app, chosen);
  add_info(app, chosen);
  add_tree(app, chosen);
  add_stat(app, chosen);
  add_cat(app, chosen);
  add_hash(app, chosen);
  add_diff(app, chosen);
  add_align(app, chosen);
  add_scan(app, chosen);
  add_verify(app, chosen);
  add_why(app, chosen);
  add_fix(app, chosen);
  add_strip_prefix(app, chosen);
  add_add_prefix(app, chosen);
  add_rename(app, chosen);
  add_remap(app, chosen);
  add_select(app, chosen);
  add_meta(app, chosen);
  add_convert(app, chosen);
  add_cast(app, chosen);
  add_split(app, chosen);
  add_join(app, chosen);
  add_compact(app, chosen);
  add_reindex(app, chosen);
  add_rescue(app, chosen);
  add_publish(app, chosen);
  add_avg(app, chosen);
  add_optim(app, chosen);
  add_zoo(app, chosen);
  add_devices(app, chosen);
  add_help(app, chosen);
  add_completion(app, chosen);
  add_man(app, chosen);
  add_doctor(app, chosen);
  add_git(app, chosen);
}

}  // namespace cli

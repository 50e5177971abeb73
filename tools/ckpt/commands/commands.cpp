#include "tools/ckpt/commands/commands.h"

namespace cli {

void add_all_commands(CommandSpec app, Command& chosen) {
#define COMMAND(group, name) add_##name(app, chosen);
#include "tools/ckpt/commands/command_list.inc"
#undef COMMAND
}

}  // namespace cli

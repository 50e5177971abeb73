#include "tools/ckpt/commands/commands.h"

#include <algorithm>
#include <string_view>

namespace cli {

void add_all_commands(CommandSpec app, Command& chosen) {
#define COMMAND(group, name) add_##name(app, chosen);
#include "tools/ckpt/commands/command_list.inc"
#undef COMMAND
}

bool add_command_alone(CommandSpec app, Command& chosen, const std::string& word) {
  struct Named {
    std::string_view group;
    std::string name;
    void (*add)(CommandSpec, Command&);
  };
#define COMMAND(group, name) {#group, #name, add_##name},
  const Named commands[] = {
#include "tools/ckpt/commands/command_list.inc"
  };
#undef COMMAND
  for (Named command : commands) {
    std::ranges::replace(command.name, '_', '-');
    if (command.name != word || command.group == "itself") continue;
    command.add(app, chosen);
    return true;
  }
  return false;
}

}  // namespace cli

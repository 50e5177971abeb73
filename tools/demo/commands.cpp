// The commands of the demo's ckpt: those that tools/demo.sh runs. In the place of tools/ckpt/commands/commands.cpp.

#include "tools/ckpt/commands/commands.h"

#include <algorithm>
#include <string>

#include "libcore/base/error.h"

namespace cli {
namespace {

struct Named {
  const char* name;
  void (*add)(CommandSpec, Command&);
};
constexpr Named kCommands[] = {{"ls", add_ls},
                               {"diff", add_diff},
                               {"strip-prefix", add_strip_prefix},
                               {"add-prefix", add_add_prefix},
                               {"remap", add_remap}};

void refuse_other(const std::string& word) {
  for (std::string name : {
#define COMMAND(group, name) #name,
#include "tools/ckpt/commands/command_list.inc"
#undef COMMAND
       }) {
    std::ranges::replace(name, '_', '-');
    if (name != word) continue;
    throw core::Error(core::ErrorCode::unsupported,
                      "this ckpt was built for tools/demo.sh, without '" + word +
                          "'; the whole tool, build/bin/ckpt, is built by: cmake --build build --target ckpt_cli");
  }
}

}  // namespace

void add_all_commands(CommandSpec app, Command& chosen) {
  for (const Named& command : kCommands) command.add(app, chosen);
}

bool add_command_alone(CommandSpec app, Command& chosen, const std::string& word) {
  for (const Named& command : kCommands) {
    if (command.name != word) continue;
    command.add(app, chosen);
    return true;
  }
  refuse_other(word);
  return false;
}

}  // namespace cli

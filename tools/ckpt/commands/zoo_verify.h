#pragma once
// ckpt zoo verify, below `ckpt zoo`. Thread safety: as commands.h. Use: add_zoo_verify(zoo, chosen);

#include "tools/ckpt/commands/commands.h"

namespace cli {

void add_zoo_verify(CommandSpec zoo, Command& chosen);

}  // namespace cli

#pragma once
// `ckpt lora extract`. Thread safety: one thread. Use: add_lora_extract(lora, chosen);

#include "tools/ckpt/line/options.h"

namespace cli {

void add_lora_extract(CommandSpec lora, Command& chosen);

}  // namespace cli

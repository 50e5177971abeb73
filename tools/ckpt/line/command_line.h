#pragma once
// The command line as a whole: all commands, help, version, mistakes.
// Thread safety: one thread. Use: return parse_command_line(argc, argv)(context);

#include "tools/ckpt/line/options.h"

namespace cli {

/// What the command line asks for; help and version are commands too. Error(usage) for a mistake, with what to read.
Command parse_command_line(int argc, char** argv);

}  // namespace cli

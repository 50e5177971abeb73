#pragma once
// The command line of the program.
// Thread safety: one at a time. Use: return train::run_command_line(argc, argv);

namespace train {

/// Runs a command; gives its exit code, 2 for a command line that makes no sense. Errors: those of the commands.
int run_command_line(int argc, const char* const* argv);

}  // namespace train

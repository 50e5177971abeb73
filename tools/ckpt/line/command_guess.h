#pragma once
// The command that was probably meant: by its spelling ("verfy" -> verify), its meaning ("validate" -> verify) or both
// ("lsit", for "list" -> ls).
// Thread safety: pure. Use: throw Error(usage, "no command is named 'list'" + did_you_mean_command(app, "list"));

#include <string>

#include "tools/ckpt/line/arguments.h"

namespace cli {

/// "; did you mean 'join' or 'merge'?", or "" for a word that says nothing. Words by meaning are for the program
/// itself, not for the commands below one of its commands.
std::string did_you_mean_command(const CLI::App& app, const std::string& word);

}  // namespace cli

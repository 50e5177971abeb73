#pragma once
// Manual pages from the same tree of commands and options that --help prints.
// Thread safety: pure. Use: std::string roff = man_page(*app.get_subcommand("ls"));

#include <CLI/CLI.hpp>
#include <string>

namespace cli {

/// The page of a command, or of the whole program, as man(7) source.
std::string man_page(const CLI::App& command);

/// "ckpt", "ckpt-ls", "ckpt-git-install".
std::string man_name(const CLI::App& command);

}  // namespace cli

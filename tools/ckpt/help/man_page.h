#pragma once
// Manual pages from the same tree of commands and options that --help prints.
// Thread safety: pure. Use: std::string roff = man_page(app, "ls");

#include <string>
#include <vector>

#include "tools/ckpt/line/arguments.h"

namespace cli {

/// The page of a command, or of the whole program (""), as man(7) source. Error(usage) when there is no such command.
std::string man_page(const CLI::App& app, const std::string& command);

struct ManPage {
  std::string name;  ///< "ckpt", "ckpt-ls"
  std::string text;
};

/// The page of the program, then those of its commands.
std::vector<ManPage> all_man_pages(const CLI::App& app);

}  // namespace cli

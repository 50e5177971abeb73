#pragma once
// Teaches git to show what changed in a checkpoint: patterns in an attributes file that name the driver "ckpt", and the
// driver in git's configuration. Thread safety: one thread. Use: GitDriver driver = locate_driver({.global = false});

#include <filesystem>
#include <string>
#include <vector>

namespace cli {

struct GitScope {
  bool global = false;  ///< for all repositories of the user instead of the one here
};

struct GitDriver {
  GitScope scope;
  std::filesystem::path attributes;  ///< the file that names patterns
  std::string configured;            ///< value of diff.ckpt.textconv, "" for none
  bool has_patterns = false;
  bool complete() const { return has_patterns && !configured.empty(); }
};

/// What is there. Errors: Error(io) without git, or outside a repository unless global.
GitDriver locate_driver(const GitScope& scope);

/// Lines of our block in the attributes file.
std::vector<std::string> driver_patterns();
/// What git runs for each file: "ckpt git textconv", with the whole path where another ckpt, or none, is in $PATH.
std::string textconv_command();

/// Writes both. Nothing else in either file is touched. Errors: Error(io).
void install_driver(const GitDriver& driver);
/// Takes both away again; an attributes file that held nothing else is removed. Errors: Error(io).
void uninstall_driver(const GitDriver& driver);

/// A checkpoint as lines of text that differ where it differs: what it is, then one line a tensor with its type, shape,
/// statistics and content hash, one a plain value. What cannot be read becomes a line that says why: git would stop at
/// an error.
std::string text_of_checkpoint(const std::filesystem::path& file);

}  // namespace cli

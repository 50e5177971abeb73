#pragma once
// What may stand at the end of a command line: commands, options, their values, files, places and keys inside a file.
// The scripts for shells only ask here, so they never fall behind the program. Thread safety: pure apart from reading
// files. Use: Completion c = complete(app, {"strip-prefix", "--pre"});

#include <string>
#include <vector>

#include "tools/ckpt/line/arguments.h"

namespace cli {

struct Completion {
  struct Candidate {
    std::string text;
    std::string description = {};
  };
  std::vector<Candidate> candidates;
  bool files = false;  ///< the candidates are names of files and folders
};

/// Completions of the last of `words`, the words behind the program's name. Never throws for what a file holds.
Completion complete(const CLI::App& app, const std::vector<std::string>& words);

/// The script that a shell reads: "bash", "zsh" or "fish". Error(usage) for another.
std::string completion_script(const std::string& shell);

/// The answer in the form that the script of this shell reads: "text<TAB>description" lines for zsh and fish; for bash
/// "files" or "words", then the texts. What would break its line is left out.
std::string completion_reply(const std::string& shell, const Completion& completion);

}  // namespace cli

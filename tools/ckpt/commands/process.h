#pragma once
// Runs another program and collects what it says.
// Thread safety: any thread. Use: ProcessResult r = run_process({"git", "config", "--list"});

#include <string>
#include <vector>

namespace cli {

struct ProcessResult {
  int code = -1;    ///< exit code; 127 when there is no such program, 128 + N after signal N
  std::string out;  ///< standard output
  std::string err;  ///< standard error
};

/// Searches $PATH; standard input is empty. Errors: Error(io) when the system cannot start processes at all.
ProcessResult run_process(const std::vector<std::string>& words);

}  // namespace cli

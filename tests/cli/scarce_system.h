#pragma once
// Runs the program where the system refuses memory, threads or processes (scarce_system.c).
// Use: Outcome done = run_ckpt(dir.path(), {"ls", "net.pth"}, where({{"CKPT_FAIL_THREADS", "1"}}));

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace test {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The shared object, where the build put it.
inline std::string scarce_system() {
  return CKPT_SCARCE_SYSTEM;
}

inline RunOptions where(const Variables& variables) {
  RunOptions options;
  options.in_child = [variables] {
    ::setenv("LD_PRELOAD", scarce_system().c_str(), 1);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  };
  return options;
}

}  // namespace test

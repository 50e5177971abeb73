#pragma once
// What the programs ckpt and ckpt-run have around their work: how signals end them, and the one line and the exit code
// that whatever is thrown becomes. Thread safety: for main() alone.
// Use: return run_main(argc, argv, run, {.out_of_memory = "out of memory"});

#include <string>

namespace cli {

struct MainRules {
  std::string out_of_memory;                   ///< the text for std::bad_alloc
  bool (*is_silent)() = [] { return false; };  ///< whether an Error is to be its exit code alone
};

int run_main(int argc, char** argv, int (*run)(int argc, char** argv), const MainRules& rules);

}  // namespace cli

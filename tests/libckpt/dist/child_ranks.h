#pragma once
// Ranks as processes that a test may kill: children of it, each at one end of a pair of sockets; the test passes their
// texts on. When one ends, the others are told so. Use: std::vector<ChildEnding> ends = run_child_ranks(3, body);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/dist/ranks.h"

namespace test {

struct ChildEnding {
  int status = 0;     ///< 0: the body returned; 1: it threw; negative: the signal
  std::string error;  ///< what it threw
};

/// Runs `body` in `size` children; REQUIRES: no other thread runs in this process.
std::vector<ChildEnding> run_child_ranks(int size, const std::function<void(ckpt::dist::Ranks&)>& body);

}  // namespace test

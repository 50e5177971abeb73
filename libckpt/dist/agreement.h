#pragma once
// One outcome for all ranks: each says how its step went, and a failure of one is the same error on all of them.
// Internal to libckpt/dist. Thread safety: as Ranks. Use: agree(ranks, outcome_of([&] { return write_my_part(); }));

#include <functional>
#include <string>
#include <vector>

#include "libckpt/dist/ranks.h"

namespace ckpt::dist {

/// Runs a step of this rank: its facts for the others, or why it failed, which they must hear of.
std::string outcome_of(const std::function<std::string()>& step);
bool went_well(const std::string& outcome);
/// The facts of all ranks. Errors, the same on every rank: Error(io) "rank 1: no space left on the device; rank 2:
/// ...".
std::vector<std::string> agree(Ranks& ranks, const std::string& outcome);

}  // namespace ckpt::dist

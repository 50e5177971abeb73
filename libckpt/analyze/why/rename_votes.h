#pragma once
// Candidates for renaming rules: every key that found no partner votes for what would have to change in its name to
// give it one. Long lists are sampled, so that the cost stays linear.
// Thread safety: pure. Use: for (const RuleVote& vote : prefix_votes(attempt)) ...

#include <vector>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

struct RuleVote {
  KeyRule rule;
  double votes = 0;
  double likeness = 0;  ///< how alike the two names are, 0 to 1: decides between equals
};

/// Another prefix: by the longest ends that names have in common. Best first.
std::vector<RuleVote> prefix_votes(const Attempt& attempt);
/// One to three components exchanged, inserted or removed in the middle or at the end. Best first.
std::vector<RuleVote> path_votes(const Attempt& attempt);

}  // namespace ckpt::detail

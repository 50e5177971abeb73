#pragma once
// The second half of align: matches as rules. Internal.
// Thread safety: pure. Use: Rules rules = make_rules(matching, in_a, in_b, options);

#include "libckpt/analyze/align_match.h"

namespace ckpt::detail {

/// In this order: drop, rename, transpose, reshape, cast, split and fuse, tie.
Rules make_rules(const Matching& matching, const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
                 const AlignOptions& options);

}  // namespace ckpt::detail

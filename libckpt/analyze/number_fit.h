#pragma once
// Names that differ in their numbers only, as one pattern with {#i}. Internal to align.
// Thread safety: pure. Use: for (const ManyNames& rule : fit_numbers(group)) ...

#include <vector>

#include "libckpt/analyze/name_patterns.h"

namespace ckpt::detail {

/// Patterns that turn each `from` into its `to`, not tried on other names. Names are grouped by their text without
/// numbers; where the numbers of a group follow no rule, it is divided by one of them until they do.
std::vector<ManyNames> fit_numbers(const std::vector<ManyNames>& names);

}  // namespace ckpt::detail

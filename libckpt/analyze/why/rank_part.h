#pragma once
// A file that one process of a distributed program saved for itself: its DTensors hold that process's part alone.
// Thread safety: pure. Use: if (auto part = rank_part(root)) diagnosis.causes.push_back(rank_cause(*part));

#include <cstdint>
#include <optional>

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

struct RankPart {
  std::optional<std::int64_t> rank;  ///< of the process that saved it, where the file says so
  std::optional<std::uint64_t> of;   ///< how many processes the tensors are spread over
};

/// Nothing where no tensor is split between processes. Cost linear in the tree.
std::optional<RankPart> rank_part(const Value& root);

/// "the file holds the part of rank 0 of 2", with what to do.
Cause rank_cause(const RankPart& part);

}  // namespace ckpt::detail

#pragma once
// The first half of align: which tensors of A make which of B, and how. Names decide first, then values that prove a
// pair, then the place in the model. Internal.
// Thread safety: pure. Use: Matching m = match_tensors(in_a, in_b, options);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/analyze/align.h"

namespace ckpt::detail {

/// One step from tensors of A to tensors of B. In the order in which it is done: transpose, reshape, cast of each part
/// of A; then fuse or split; then nothing more.
struct Match {
  std::vector<std::size_t> from;  ///< indexes in A; several for a fuse
  std::vector<std::size_t> to;    ///< indexes in B; several for a split
  bool transpose = false;
  bool reshape = false;
  std::optional<core::DType> cast = {};
  std::int64_t dim = 0;  ///< of a split or fuse
  bool tie = false;      ///< `from` is used by another match too: a second name
  AlignedTensors::By by = AlignedTensors::By::content;
  bool same_values = true;  ///< the step gives the very values of B
};

/// Open tensors that may belong to each other, of which nothing says how.
struct OpenGroup {
  std::vector<std::size_t> a;
  std::vector<std::size_t> b;
};

struct Matching {
  std::vector<Match> matches;
  std::vector<std::size_t> only_a;
  std::vector<std::size_t> only_b;
  std::vector<OpenGroup> undecided;
};

Matching match_tensors(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b, const AlignOptions& options);

}  // namespace ckpt::detail

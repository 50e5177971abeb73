#pragma once
// What align has found so far: both files and the matches between them. Internal.
// Thread safety: one owner; const functions may be called from many threads. Use: pairing.take({{i}, {k}});

#include "libckpt/analyze/align_match.h"
#include "libckpt/analyze/align_side.h"

namespace ckpt::detail {

constexpr std::size_t kNoMatch = static_cast<std::size_t>(-1);

class Pairing {
 public:
  Pairing(const std::vector<NamedEntry>& in_a, const std::vector<NamedEntry>& in_b, const AlignOptions& options);

  Side a;
  Side b;

  const std::vector<Match>& matches() const { return matches_; }
  void take(Match match);
  /// The match of a tensor; kNoMatch for one without.
  std::size_t match_of_a(std::size_t i) const { return match_of_a_[i]; }
  std::size_t match_of_b(std::size_t k) const { return match_of_b_[k]; }
  /// True when the values of both tensors prove that they are a pair, where they are equal.
  bool prove(std::size_t i, std::size_t k) const { return a.proves(i) && b.proves(k); }

 private:
  Pairing(const std::vector<NamedEntry>& in_a, const std::vector<NamedEntry>& in_b, const std::vector<Hash128>& hashes,
          unsigned threads);

  std::vector<Match> matches_;
  std::vector<std::size_t> match_of_a_;
  std::vector<std::size_t> match_of_b_;
};

/// A tensor as it may be before it meets the other file: transposed, cast.
struct Variant {
  EntryPtr entry;
  bool transpose = false;
  std::optional<core::DType> cast = {};
};

/// What `entry` may become on the way to a tensor of `type`; the plain one first, where the dtypes are equal.
std::vector<Variant> variants(const EntryPtr& entry, core::DType type);

}  // namespace ckpt::detail

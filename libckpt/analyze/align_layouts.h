#pragma once
// How one tensor of a pair becomes the other: as it is, transposed, reshaped, cast. Values say so; where they cannot,
// only what leaves no choice is taken. Internal to align.
// Thread safety: one owner; proved() may be called from many threads. Use: if (auto match = layouts.proved(i, k)) ...

#include <map>
#include <string>

#include "libckpt/analyze/align_pairing.h"

namespace ckpt::detail {

class Layouts {
 public:
  Layouts(const Pairing& pairing, const AlignOptions& options) : pairing_(pairing), options_(options) {}

  /// The step from tensor i of A to k of B when their values tell it.
  std::optional<Match> proved(std::size_t i, std::size_t k) const;
  /// The step that names or places ask for, where values cannot tell: nothing when it could be another one (a square
  /// matrix in a file whose matrices are transposed).
  std::optional<Match> assumed(std::size_t i, std::size_t k, AlignedTensors::By by) const;
  /// Takes in what the matches so far say about matrices. Matrices of `named` are pairs whose layout is unknown.
  void learn(const std::vector<std::pair<std::size_t, std::size_t>>& named);

 private:
  struct Seen {
    bool plain = false;
    bool transposed = false;
  };
  std::optional<bool> matrix_is_transposed(std::size_t i, std::size_t k) const;

  const Pairing& pairing_;
  const AlignOptions& options_;
  std::map<std::string, Seen> kinds_;  ///< of matrices, by name without numbers
  bool some_transposed_ = false;
  std::size_t learnt_ = 0;  ///< matches that were looked at
};

}  // namespace ckpt::detail

#pragma once
// The values of pairs of tensors compared in pieces of bounded size by several threads. Internal to diff.
// Thread safety: pure. Use: std::vector<ValueDifference> d = compare_values(tensors, {.tick = tick});

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/entry.h"

namespace ckpt::detail {

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  bool exact() const { return rtol == 0 && atol == 0; }
};

struct ValueDifference {
  std::uint64_t differing = 0;  ///< elements with other bits (bytes for types that pack several values)
  std::uint64_t beyond = 0;     ///< of those, beyond the tolerance
  bool numbers = false;         ///< the rest means something
  double max_difference = 0;    ///< NaN counts as no number
  double max_relative = 0;
  std::uint64_t max_ulp = 0;
  double dot = 0;  ///< sum of products, and of squares of each side; finite pairs only
  double squares_a = 0;
  double squares_b = 0;
  double squares_difference = 0;  ///< of a - b; finite pairs only
  std::uint64_t nans_a = 0;       ///< elements that are NaN
  std::uint64_t nans_b = 0;

  void merge(const ValueDifference& other);
  /// None when a side is zero.
  std::optional<double> cosine() const;
  /// ||a - b|| / ||a||; none when a is zero.
  std::optional<double> relative_norm() const;
};

/// REQUIRES: same shape and bytes on both sides; the same dtype, or both numbers of as many parts.
struct ValuePair {
  const Entry* a = nullptr;
  const Entry* b = nullptr;
  std::string name;  ///< context of errors
};

struct CompareOptions {
  Tolerance tolerance = {};
  unsigned threads = 0;
  std::function<void(std::uint64_t)> tick = {};  ///< bytes of the first side; one call at a time
};

/// One result a pair. Pairs that share both sources are read once.
std::vector<ValueDifference> compare_values(const std::vector<ValuePair>& pairs, const CompareOptions& options);

/// True when tensors of these types and equal shapes can be compared.
bool are_comparable(const Entry& a, const Entry& b);

}  // namespace ckpt::detail

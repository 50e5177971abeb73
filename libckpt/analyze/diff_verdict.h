#pragma once
// What happened between two checkpoints, in words. Internal to diff: it is given what the comparison saw and reads only
// tensors that differ. Thread safety: pure. Use: FoundVerdicts found = find_verdicts({a, b, seen, result, threads});

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/compare_bytes.h"
#include "libckpt/analyze/diff.h"

namespace ckpt::detail {

/// Two tensors of one name.
struct SeenPair {
  NamedEntry a;
  NamedEntry b;
  std::optional<ValueDifference> values;  ///< where they could be compared
};

struct Seen {
  std::vector<NamedEntry> in_a;
  std::vector<NamedEntry> in_b;
  std::vector<NamedEntry> only_a;
  std::vector<NamedEntry> only_b;
  std::vector<SeenPair> pairs;
};

struct VerdictInput {
  const Checkpoint& a;
  const Checkpoint& b;
  const Seen& seen;
  const DiffResult& result;
  unsigned threads = 0;
};

struct FoundVerdicts {
  /// One sentence each; names in them are quoted, or escaped as core::printable() does.
  std::vector<std::string> texts;
  /// Tensors of which one of the texts says all that happened to them: a cast, a transposition, another name.
  std::unordered_map<std::string, std::size_t> of_tensor;
};

FoundVerdicts find_verdicts(const VerdictInput& input);

}  // namespace ckpt::detail

#pragma once
// Where in a checkpoint's tree the keys of a model may lie: in a dict at some depth, or spread over several dicts.
// Thread safety: pure. Use: for (const Candidate& c : list_candidates(root, "")) ...

#include <string>
#include <vector>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

struct Candidate {
  enum class Kind : std::uint8_t { dict, flat };
  Kind kind = Kind::dict;
  std::string at;              ///< dotted path, "" for the top
  const Dict* dict = nullptr;  ///< in the tree; null for a flat one
  std::vector<FileKey> keys;
  std::uint64_t bytes = 0;  ///< of its tensors

  /// Whether it is the dict behind one of `identities` (Value::identity()).
  bool is_one_of(const std::vector<const void*>& identities) const;
  bool at_top() const { return kind == Kind::dict && at.empty(); }
  /// What makes it the whole file. REQUIRES: not at_top().
  FixStep step() const;
};

/// Outermost first; the flat one, where there is one, last. With `at`, the one there alone.
std::vector<Candidate> list_candidates(const Value& root, const std::string& at);

/// All tensors outside optimizer states under their dotted names.
Dict flat_state(const Value& root);

struct OptimizerFacts {
  std::string at;
  std::vector<std::size_t> groups;  ///< parameters of each
  std::uint64_t bytes = 0;
};
std::vector<OptimizerFacts> list_optimizers(const Value& root);

/// Device tags other than cpu and meta with the number of tensors, in the order in which they are met.
std::vector<std::pair<std::string, std::size_t>> list_devices(const Value& root);

}  // namespace ckpt::detail

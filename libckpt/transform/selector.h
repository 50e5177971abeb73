#pragma once
// Selectors: which tensors an operation means, by name and by what they are.
//   "encoder.*.weight"             a glob (glob.h): '*' crosses dots, "**" is the same; '{name}' is one component
//   "re:layers\.\d+\.bias"         a regular expression (RE2 syntax) of the whole key
//   "@dtype=bf16|f16"              by dtype, any of several
//   "@numel>1M @ndim=2 @bytes>=1MiB @shape=768x*"   counts (K, M, G of 1,000; bytes: K of 1,024, KB of 1,000)
//   "@kind=buffer" "@kind=parameter"   see tensor_kind() below
//   "@location=cuda:1" "@location=cuda*"   the device tag, a glob
// Parts stand behind each other with blanks between and must all hold: "*.weight @ndim=2 @dtype!=f32". Comparisons are
// = != < <= > >=. A blank that belongs to a name is written '\ '. Thread safety: immutable once parsed.
// Use: auto big = ckpt::Selector::parse("*.weight @numel>1M"); if (big.matches("fc.weight", entry)) ...

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

class Selector {
 public:
  /// Error(usage) that quotes the part which is wrong.
  static Selector parse(std::string_view text);

  /// True when the whole key matches and every predicate holds.
  bool matches(std::string_view key, const Entry& entry) const;
  /// As matches(), where a pattern that names a dict or module above the key means all below it.
  bool covers(std::string_view key, const Entry& entry) const;
  /// The same for something that is no tensor: no predicate holds for it.
  bool covers_value(std::string_view key) const;

  const std::string& text() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// What to take: all that `include` covers (everything when it is empty) but what `exclude` covers.
struct Selection {
  std::vector<std::string> include = {};
  std::vector<std::string> exclude = {};
  bool empty() const { return include.empty() && exclude.empty(); }
};

class SelectionMatcher {
 public:
  /// Error(usage) for a selector that cannot be read.
  explicit SelectionMatcher(const Selection& selection);

  bool contains(std::string_view key, const Entry& entry) const;
  /// For plain values beside the tensors.
  bool contains_value(std::string_view key) const;
  /// Selectors that cover none of `entries`, as they were written.
  std::vector<std::string> unmatched(const std::vector<NamedEntry>& entries) const;

 private:
  std::vector<Selector> include_;
  std::vector<Selector> exclude_;
};

/// "parameter" or "buffer". A file says it only for torch.nn.Parameter and for tensors that require gradients; the rest
/// is told by its name (running_mean, running_var, num_batches_tracked, position_ids, ...) and by its dtype: integers
/// and bools are buffers, floats and quantised blocks parameters.
enum class TensorKind : std::uint8_t { parameter, buffer };
TensorKind tensor_kind(std::string_view key, const Entry& entry);

}  // namespace ckpt

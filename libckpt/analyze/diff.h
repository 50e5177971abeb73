#pragma once
// diff: what differs between two checkpoints, of any formats, in numbers and in words. Tensor values are compared as
// bits, streamed by several threads with a few megabytes each whatever the size; where they differ, by how much.
// Thread safety: pure. Use: if (!ckpt::diff(a, b).equal()) ...

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/selector.h"

namespace ckpt {

/// What makes two checkpoints different; the rest is in DiffResult::notes.
struct DiffOptions {
  bool order = false;      ///< the order of the tensors
  bool metadata = false;   ///< file-level metadata and per-module versions
  bool locations = false;  ///< device tags
  bool structure = true;   ///< tensors of one side only, dtypes, shapes
  bool values = true;      ///< values of tensors
  bool plain = true;       ///< values that are no tensors
  /// Values differ only where |a - b| > atol + rtol * |b|; both 0: where any bit does. NaN equals NaN then.
  double rtol = 0;
  double atol = 0;
  std::vector<std::string> ignore_prefixes = {};  ///< taken off names of both sides, as whole components: "module."
  Rules rules = {};                               ///< applied to `a` first
  Selection selection = {};                       ///< only these are compared; names without the ignored prefixes
  bool verdicts = true;                           ///< find words for what happened; reads what differs once more
  unsigned threads = 0;
  Progress progress = {};  ///< bytes of one side
};

struct Difference {
  enum class Kind : std::uint8_t {
    only_in_a,
    only_in_b,
    dtype,
    shape,
    values,
    plain_value,
    order,
    metadata,
    location,
  };
  Kind kind;
  std::string name;  ///< dotted name of the tensor or value, or what of the metadata
  std::string a;     ///< what each side has, as text
  std::string b;
  bool tensor = true;  ///< only_in_*: false for a plain value
  // values, and dtype where both sides are numbers of one shape:
  std::uint64_t elements = 0;                 ///< how many there are
  std::uint64_t differing = 0;                ///< how many have other bits (for dtype: another value)
  std::uint64_t beyond = 0;                   ///< how many are beyond the tolerance; `differing` without one
  std::optional<double> max_difference = {};  ///< largest absolute difference, where the dtype is a number
  std::optional<double> max_relative = {};    ///< largest |a - b| / max(|a|, |b|)
  std::optional<std::uint64_t> max_ulp = {};  ///< largest distance in representable numbers; floats of one dtype
  std::optional<double> cosine = {};          ///< of the two as vectors; none when one is zero
  std::optional<double> relative_norm = {};   ///< ||a - b|| / ||a|| of what is finite; none when a is zero
  std::uint64_t nans_a = 0;                   ///< elements of each side that are NaN
  std::uint64_t nans_b = 0;
  std::optional<std::size_t> verdict = {};  ///< the one of DiffResult::verdicts that says all there is to say of it
};

/// "only in A", "shape", ...: for a person and for JSON ("only_in_a").
std::string_view name(Difference::Kind kind);

struct DiffResult {
  std::vector<Difference> differences;
  std::vector<Difference> notes;  ///< of the kinds that the options leave out
  /// What happened, in words, the most telling first: "B is A cast to bfloat16", "only the optimizer differs",
  /// "'fc.weight' is transposed", "B is A with keys renamed: 'module.' is added", "only lora_* is added", ...
  std::vector<std::string> verdicts;
  std::uint64_t tensors_compared = 0;
  std::uint64_t tensors_equal = 0;
  std::uint64_t bytes_compared = 0;  ///< of one side
  /// ||A - B|| / ||A|| of all tensors whose numbers differ, as one vector; none when there are none.
  std::optional<double> relative_norm = {};
  bool equal() const { return differences.empty(); }
};

/// Tensors are matched by dotted name, so that a nested file equals a flat one with the same names. Views are compared
/// by their logical values. Errors: those of reading the tensors, with the key as context; those of apply_rules().
DiffResult diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});

}  // namespace ckpt

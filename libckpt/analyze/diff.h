#pragma once
// diff: what differs between two checkpoints, of any formats. Tensor values are compared as bits, streamed with a few
// megabytes of memory whatever the size. Thread safety: pure. Use: if (!ckpt::diff(a, b).equal()) ...

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"

namespace ckpt {

/// What makes two checkpoints different; the rest is in DiffResult::notes.
struct DiffOptions {
  bool order = false;      ///< the order of the tensors
  bool metadata = false;   ///< file-level metadata and per-module versions
  bool locations = false;  ///< device tags
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
  std::uint64_t elements = 0;                 ///< values: how many there are
  std::uint64_t differing = 0;                ///< values: how many have other bits
  std::optional<double> max_difference = {};  ///< values: largest absolute difference, where the dtype is a number
};

/// "only in A", "shape", ...: for a person and for JSON ("only_in_a").
std::string_view name(Difference::Kind kind);

struct DiffResult {
  std::vector<Difference> differences;
  std::vector<Difference> notes;  ///< of the kinds that the options leave out
  std::uint64_t tensors_compared = 0;
  std::uint64_t tensors_equal = 0;
  std::uint64_t bytes_compared = 0;  ///< of one side
  bool equal() const { return differences.empty(); }
};

/// Tensors are matched by dotted name, so that a nested file equals a flat one with the same names. Views are compared
/// by their logical values. Errors: those of reading the tensors, with the key as context.
DiffResult diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});

}  // namespace ckpt

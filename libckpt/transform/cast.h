#pragma once
// cast: another element type for the tensors of a checkpoint. Nothing is read before the result is: each cast entry
// converts its bytes when they are asked for. Ties and overlapping views stay where all tensors of a storage are cast.
// Thread safety: pure. Use: ckpt::Checkpoint half = ckpt::cast(checkpoint, {.to = core::DType::bf16, .keep = {.include
// = {"*norm*"}}});

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/selector.h"

namespace ckpt {

struct CastOptions {
  core::DType to = core::DType::f32;
  /// Types to be cast. Empty: as Module.to() does, floats to a float type, floats and complex numbers to a complex one;
  /// and integers to an integer type. bool is never meant by an empty list.
  std::vector<core::DType> from = {};
  Selection keep = {};      ///< tensors that keep their type, whatever else is said; nothing when `include` is empty
  bool keep_norms = false;  ///< weights, biases and statistics of normalisation layers keep their type
  std::string at = {};      ///< dotted path of the dict that is meant; "" = whole file
};

struct CastReport {
  struct Count {
    core::DType from;
    core::DType to;
    std::uint64_t tensors = 0;
  };
  std::uint64_t tensors = 0;  ///< in scope
  std::uint64_t changed = 0;
  std::uint64_t kept = 0;    ///< would have been cast but for `keep`, `keep_norms` or being a step counter
  std::uint64_t untied = 0;  ///< shared memory with a tensor that was not cast, or not to the same type
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  std::vector<Count> counts;  ///< in order of first use
};

/// The `step` counters of optimizers never get a type that is too narrow for them (they would stop counting); counters
/// such as num_batches_tracked, being integers, never become floats. Errors: Error(key) when nothing is at `at` or a
/// pattern of `keep` is wrong; Error(unsupported) when `to`, or a type of `from`, cannot be cast.
Checkpoint cast(const Checkpoint& checkpoint, const CastOptions& options, CastReport* report = nullptr);

}  // namespace ckpt

#pragma once
// Arrays of NumPy in a tree that came from a pickle, as tensors. Thread safety: pure.
// Use: Value root = with_array_tensors(tree, outline, file, limits, found);

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/format/torch/pickle_extent.h"
#include "libckpt/value.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

struct FoundArrays {
  std::uint64_t tensors = 0;
  std::vector<std::string> others;  ///< types of arrays that are no tensors, which stay objects: "O8"
};

/// Of the tuple that NumPy writes. Error(corrupt) for anything else, and for more dimensions than it has.
core::Shape array_shape(const Value& value);

/// The same tree, where what stood for an array is a tensor, and a name with a tensor behind it, as Paddle writes them,
/// that tensor. Long values are slices of `file`; long runs of bytes that are no values are read. What was one array in
/// several places is one tensor in all of them; what Paddle cut into slices is whole. Errors: Error(corrupt) for arrays
/// whose values are not those of their shape; Error(refused) where the pickle is longer than the limits without those
/// values.
Value with_array_tensors(const Value& root, const PickleOutline& outline, const SourcePtr& file, const Limits& limits,
                         FoundArrays& found);

}  // namespace ckpt::detail

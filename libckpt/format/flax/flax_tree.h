#pragma once
// What a msgpack file of flax holds, as a tree of values; arrays stay in the file. Thread safety: pure.
// Use: Value root = read_flax_tree(input.file, options.limits, input.budget.get());

#include "libckpt/budget.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libckpt/value.h"

namespace ckpt::detail {

/// Errors: Error(corrupt) for what contradicts itself, is cut off or has bytes behind it; Error(unsupported) for
/// extensions of other programs and types that are no numbers; Error(refused) for more than `limits` or the budget
/// allow; the budget may be null.
Value read_flax_tree(const SourcePtr& file, const Limits& limits, const Budget* budget);

}  // namespace ckpt::detail

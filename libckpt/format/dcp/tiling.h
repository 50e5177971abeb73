#pragma once
// Whether boxes fill a tensor exactly: every element in one box and no other. Thread safety: pure.
// Use: check_tiling(item.shape, boxes);

#include <span>

#include "libcore/base/shape.h"

namespace ckpt::detail {

struct Box {
  core::Shape offsets;
  core::Shape sizes;
};

/// Errors: Error(corrupt) naming a box that reaches outside, two that overlap, or how many elements are in none;
/// Error(refused) for more boxes than can be compared when they form no grid. Boxes without elements may lie anywhere
/// inside. Cost: n log n for grids (every sharding that PyTorch writes), n^2 for up to 4,096 others.
void check_tiling(const core::Shape& shape, std::span<const Box> boxes);

}  // namespace ckpt::detail

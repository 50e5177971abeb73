#pragma once
// Which convolutions on the CPU leave images that lie in ordinary order as they are. Bringing them into blocks
// (image_table.h) and back takes as long as these do, or longer.
// Thread safety: pure functions. Use: if (stays_in_order(sizes)) run_as_it_lies(x);

#include "libcore/backend/nn_table.h"

namespace core {

/// Of 1 x 1 in one group: a product of matrices for each image.
bool is_pointwise(const Conv2dSizes& s);
/// Of groups of one channel, or of few channels in all: plane by plane.
bool is_by_planes(const Conv2dSizes& s);
/// Most numbers that an output, or the gradient of a pixel, is a sum of in the latter, and most channels of a group.
inline constexpr std::int64_t kMostPlaneTaps = 256, kMostPlaneInputs = 3;

inline bool stays_in_order(const Conv2dSizes& s) {
  return is_pointwise(s) || is_by_planes(s);
}

}  // namespace core

#pragma once
// The job "walk": every object of a file, told once, without following anything that leads out of it.
// Thread safety: one thread. Use: walk(file, {}, reply);

#include <cstdint>

#include "libckpt/hdf5/helper/file_driver.h"
#include "libckpt/hdf5/helper/reply.h"

namespace ckpt::detail {

struct WalkLimits {
  std::uint64_t max_objects = 1'048'576;  ///< groups, datasets and links together
  std::uint64_t max_depth = 32;
  bool measure = false;  ///< also the bytes that belong to nothing
};

/// Sends links, groups, datasets and the end. Throws Failure for what is damaged or refused.
void walk(ReadOnlyFile& file, const WalkLimits& limits, Reply& reply);

}  // namespace ckpt::detail

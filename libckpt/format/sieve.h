#pragma once
// Sieves a checkpoint: every tensor is read to its end, and those that cannot be are left out.
// Thread safety: pure. Use: Sieved sieved = sieve(checkpoint, threads);

#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt::detail {

struct Sieved {
  Value root;                 ///< the tree without what is lost
  std::uint64_t tensors = 0;  ///< in it
  std::vector<Finding> lost;
};

/// A lost tensor leaves a dict with its key; in a list, tuple or object None stands in its place. A view whose bytes
/// are whole stays a tensor when the storage around it is not. Errors: Error(io) and Error(refused) are passed on.
Sieved sieve(const Checkpoint& checkpoint, unsigned threads, const Progress& progress);

}  // namespace ckpt::detail

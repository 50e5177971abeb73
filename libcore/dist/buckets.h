#pragma once
// Which gradients DistributedDataParallel sums together: buckets of one dtype and device, closed when their bytes reach
// a limit. The rules of PyTorch 2.15. Thread safety: pure functions. Use: auto assigned =
// core::distributed::assign_buckets(sizes, {1 << 20, 25 << 20});

#include <cstdint>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"

namespace core::distributed {

/// What counts of a tensor.
struct BucketItem {
  std::int64_t bytes = 0;
  DType dtype = DType::f32;
  Device device = {};
  bool sparse = false;  ///< its gradient is sparse: it gets a bucket of its own
};

struct BucketAssignment {
  std::vector<std::vector<std::int64_t>> buckets;  ///< indices of tensors
  std::vector<std::int64_t> limits;                ///< of each bucket, in bytes
};

/// The i-th bucket of a kind ends at limits[i], later ones at the last limit; it holds what reaches it, so may exceed
/// it. indices[i] is the number of items[i] (i when there are none, and buckets are then ordered by their lowest
/// number).
BucketAssignment assign_buckets(const std::vector<BucketItem>& items, const std::vector<std::int64_t>& limits,
                                const std::vector<std::int64_t>& indices = {});

}  // namespace core::distributed

#pragma once
// How SyncBatchNorm reaches the other processes of a training: set by libcore/dist while there are some.
// Internal to core. Thread safety: set while no module runs.

#include "libcore/tensor/tensor.h"

namespace core::detail {

struct SynchronizedBatch {
  Tensor x;                                        ///< (N, C, ...), of this process
  Tensor running_mean, running_var, weight, bias;  ///< (C), each may be undefined
  double factor = 0.1;                             ///< of the batch's part in the running statistics
  double eps = 1e-5;
};
/// The batch of this process, normalised by the statistics of the batches of all.
using NormaliseSynchronized = Tensor (*)(const SynchronizedBatch& batch);

/// Null in a training of one process.
NormaliseSynchronized synchronized_norm();
void set_synchronized_norm(NormaliseSynchronized normalise);

}  // namespace core::detail

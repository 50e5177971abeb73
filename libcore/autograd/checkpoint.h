#pragma once
// checkpoint: a part of the forward pass whose intermediate tensors are not kept; backward computes them again. As
// torch.utils.checkpoint with use_reentrant=False: the graph, its nodes and all gradients (those of parameters that the
// function captures too, of any order) are the ordinary ones.
// Thread safety: as the function; backward may call it from a device's worker.
// Use: core::Tensor y = core::checkpoint([&](const std::vector<core::Tensor>& in) { return block(in[0]); }, {x});

#include <functional>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct CheckpointOptions {
  bool preserve_rng_state = true;  ///< the second run draws the random numbers of the first
};

/// function(inputs). The function must own what it captures, and compute the same each time.
/// Errors in backward (runtime): "torch.utils.checkpoint: A different number of tensors was saved during the original
/// forward and recomputation. ...", "... Recomputed values for the following tensors have different metadata than
/// during the forward pass. ...", and those of changes in place to the inputs.
std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> function,
                               const std::vector<Tensor>& inputs, const CheckpointOptions& options = {});
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
                  const CheckpointOptions& options = {});

}  // namespace core

#pragma once
// The state of the default generator as a tensor, as torch.get_rng_state and set_rng_state.
// Thread safety: as the default generator. Use: core::Tensor state = core::rng_state(); ... core::set_rng_state(state);

#include "libcore/tensor/tensor.h"

namespace core {

/// A uint8 tensor of 5056 bytes: PyTorch's own blob.
Tensor rng_state();
/// Error(type) "RNG state must be a torch.ByteTensor"; Error(runtime) when it has another size.
void set_rng_state(const Tensor& state);

}  // namespace core

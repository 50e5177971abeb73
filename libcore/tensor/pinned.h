#pragma once
// Pinned host memory: CPU tensors from which a device copies without staging. Thread safety: all functions.
// Use: core::Tensor batch = core::pin_memory(x); batch.to({.device = "cuda:0", .non_blocking = true});

#include "libcore/tensor/tensor.h"

namespace core {

class Backend;

/// A copy of a CPU tensor in pinned memory of the current device; a pinned tensor is itself. Errors: "Torch not
/// compiled with CUDA enabled" without devices, "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be
/// pinned".
Tensor pin_memory(const Tensor& tensor);
/// True for pinned tensors and their views.
bool is_pinned(const Tensor& tensor);
/// An uninitialised CPU tensor in pinned memory of `backend`.
Tensor empty_pinned(const Shape& sizes, DType dtype, Backend& backend);

}  // namespace core

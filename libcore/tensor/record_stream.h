#pragma once
// A tensor that work on another stream than its own uses. Thread safety: all functions.
// Use: { core::cuda::StreamGuard guard(side); y = x * 2; } core::record_stream(x, side);

#include "libcore/backend/streams.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// As Tensor.record_stream: the tensor's memory, once it is freed, is not reused before what `stream` was given until
/// then is done. Nothing where memory has no streams.
inline void record_stream(const Tensor& tensor, const cuda::Stream& stream) {
  if (tensor.is_cuda()) cuda::record_stream(tensor.device(), tensor.storage().data(), stream);
}

}  // namespace core

#pragma once
// What the `Use:` lines of libckpt/onnx take as given: a model and a batch of images for it.

#include "libckpt/onnx.h"
#include "libcore/core.h"

namespace user {

extern core::Linear net;
extern const core::Tensor images;

}  // namespace user

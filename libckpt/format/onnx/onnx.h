#pragma once
// ONNX models: their initialisers as a dict of tensors, and what the model says about itself as metadata. The layout is
// described in FORMAT_SUPPORT.md. Thread safety: constant. Use: listed in registry.cpp.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kOnnx;

}  // namespace ckpt::detail

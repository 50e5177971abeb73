#pragma once
// Models of the runtime as ONNX files. Link ckpt::onnx. Thread safety: see each header. Use:
// ckpt::onnx::export_model(net, {images}, "net.onnx", {.dynamic_axes = {{"input", {{0, "batch"}}}}});

#include "libckpt/onnx/export.h"

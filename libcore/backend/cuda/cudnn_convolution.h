#pragma once
// Convolution by cuDNN 9, which is loaded at run time where it is installed: no header and no library of its are needed
// to build. Only deterministic algorithms are taken, by cuDNN's heuristics. Thread safety: all functions; each thread
// has its own handles. Use: see kernels/conv.cu.

#include <cstddef>

#include "libcore/backend/nn_table.h"
#include "libcore/base/dtype.h"

namespace core::cuda {

/// How a convolution of one shape is done. Lives as long as the thread.
struct CudnnPlan {
  std::size_t workspace_bytes;
};

/// Null where cuDNN is not there, or cannot do it: padding that differs between the sides, no deterministic algorithm.
const CudnnPlan* cudnn_plan(const Conv2dParams& p, DType dtype);
const CudnnPlan* cudnn_plan(const Conv2dInputGradParams& p, DType dtype);
const CudnnPlan* cudnn_plan(const Conv2dWeightGradParams& p, DType dtype);

struct CudnnPlace {
  void* stream;
  void* workspace;  ///< of the plan's size
};

/// Without bias. False when cuDNN refuses; then nothing was started.
bool run_cudnn(const CudnnPlan& plan, const Conv2dParams& p, CudnnPlace place);
bool run_cudnn(const CudnnPlan& plan, const Conv2dInputGradParams& p, CudnnPlace place);
bool run_cudnn(const CudnnPlan& plan, const Conv2dWeightGradParams& p, CudnnPlace place);

}  // namespace core::cuda

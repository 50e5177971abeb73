#pragma once
// The seam to real GPUs: implemented by the CUDA backend where nvcc is there, by cuda_absent.cpp where it is not.
// Thread safety: called once, by the device registry.

#include <memory>
#include <vector>

#include "libcore/backend/backend.h"

namespace core {

/// One backend per visible GPU, in order; none when there is no driver or no GPU.
std::vector<std::unique_ptr<Backend>> make_cuda_backends();
/// The error of touching cuda when make_cuda_backends() gave nothing, with PyTorch's text for the same build.
[[noreturn]] void throw_no_cuda();

}  // namespace core

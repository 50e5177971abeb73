#pragma once
// The seam to real GPUs: implemented by the CUDA backend where nvcc is there, by cuda_absent.cpp where it is not.
// Thread safety: called once, by the device registry.

#include <memory>
#include <vector>

#include "libcore/backend/backend.h"

namespace core {

/// One backend per visible GPU, in order, or `logical_devices` of them round-robin over the GPUs (0: do not); none when
/// there is no driver or no GPU.
std::vector<std::unique_ptr<Backend>> make_cuda_backends(int logical_devices);
/// Replaces the CUDA devices of the process. REQUIRES: no tensor lives on one. For tests with a simulated driver.
void set_cuda_backends(std::vector<std::unique_ptr<Backend>> backends);
/// True in builds with CUDA, whether or not the machine has a GPU.
bool is_cuda_built();
/// The error of touching cuda when make_cuda_backends() gave nothing, with PyTorch's text for the same build: "Torch
/// not compiled with CUDA enabled", "Found no NVIDIA driver on your system. ..." and the like.
[[noreturn]] void throw_no_cuda();

}  // namespace core

#pragma once
// The errors of CUDA in PyTorch's words. Thread safety: pure, but for last_error() of the calling thread.
// Use: gpu::throw_cuda_error(api, error);

#include <string>

#include "libcore/backend/cuda/cuda_api.h"

namespace core::gpu {

/// Error(device) "CUDA error: an illegal memory access was encountered", and how to find its cause. Forgets an error
/// that is not sticky.
[[noreturn]] void throw_cuda_error(const CudaApi& api, int error);
/// True when a query said that work is still going on. The runtime remembers that answer as an error, which the next
/// launch would be taken to have; it is forgotten here.
bool is_pending(const CudaApi& api, int answer);
/// True when no call to the device can succeed any more.
bool is_sticky(int error);
/// Why there is no device, by the error of asking for them. "Found no NVIDIA driver on your system. ...", "The NVIDIA
/// driver on your system is too old ...", "No CUDA GPUs are available", "Unexpected error from cudaGetDeviceCount().
/// ... Error 802: system not yet initialized".
std::string no_device_text(const CudaApi& api, int error);
/// The same as Error(runtime).
[[noreturn]] void throw_no_device(const CudaApi& api, int error);

}  // namespace core::gpu

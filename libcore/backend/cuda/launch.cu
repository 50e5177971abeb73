// What launch.h declares, on the active CUDA device.
#include "libcore/backend/cuda/kernels/launch.h"

#include "libcore/backend/cuda/cuda_launch.h"

namespace core::cuda_kernels {

Scratch::Scratch(std::size_t bytes) : data_(gpu::allocate_scratch(bytes)), bytes_(bytes) {}

Scratch::~Scratch() {
  gpu::free_scratch(data_, bytes_);
}

DeviceFlag device_assert_flag() {
  return {gpu::active_assert_flag()};
}

cudaStream_t current_stream() {
  return static_cast<cudaStream_t>(gpu::active_stream());
}

std::int64_t most_shared_bytes() {
  constexpr int kOfLaunches = 4096;  // the fixed arrays of Team::reduce() among them
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    check_launch();
  }
  return bytes - kOfLaunches;
}

void check_launch() {
  gpu::check_last_launch();
}

}  // namespace core::cuda_kernels

#include "libcore/backend/cuda/cuda_launch.h"

#include "libcore/backend/cuda/cuda_device.h"

namespace core::gpu {

void* active_stream() {
  return CudaBackend::active().current_stream();
}

void* allocate_scratch(std::size_t bytes) {
  return bytes == 0 ? nullptr : CudaBackend::active().allocate(bytes);
}

void free_scratch(void* data, std::size_t bytes) noexcept {
  if (data != nullptr) CudaBackend::active().free(data, bytes);
}

int* active_assert_flag() {
  return CudaBackend::active().assert_flag();
}

void check_last_launch() {
  const CudaBackend& backend = CudaBackend::active();
  backend.check(backend.api().last_error());
}

}  // namespace core::gpu

#include "libcore/backend/cuda/cudnn_library.h"

#include <optional>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/shared_library.h"

namespace core::gpu {

const SharedLibrary* cudnn_library() {
  static const SharedLibrary* const library = SharedLibrary::open({"libcudnn.so.9"});
  return library;
}

int cudnn_type(DType dtype) {
  constexpr int kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9;
  if (dtype == DType::f64) return kDouble;
  if (dtype == DType::f16) return kHalf;
  return dtype == DType::bf16 ? kBfloat16 : kFloat;
}

int cudnn_sum_type(DType dtype) {
  return cudnn_type(dtype == DType::f64 ? DType::f64 : DType::f32);
}

int cudnn_math(DType dtype, bool tf32) {
  if (dtype == DType::f16 || dtype == DType::bf16) return kCudnnTensorOpMath;
  return dtype == DType::f32 && tf32 ? kCudnnDefaultMath : kCudnnFmaMath;
}

void* CudnnHandles::take(int device) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& idle = idle_[device];
    if (!idle.empty()) {
      void* handle = idle.back();
      idle.pop_back();
      return handle;
    }
  }
  std::optional<RelaxedCapture> relaxed;
  if (runtime_ != nullptr) relaxed.emplace(*runtime_);
  void* handle = nullptr;
  return create_(&handle) == 0 ? handle : nullptr;
}

void CudnnHandles::give(int device, void* handle) {
  const std::lock_guard lock(mutex_);
  idle_[device].push_back(handle);
}

std::shared_ptr<CudnnHandles> loaded_cudnn_handles() {
  static const auto& loaded = *new std::shared_ptr<CudnnHandles>([]() -> std::shared_ptr<CudnnHandles> {
    CudnnHandles::Create create = nullptr;
    const SharedLibrary* library = cudnn_library();
    if (library == nullptr || !library->find("cudnnCreate", create)) return nullptr;
    return std::make_shared<CudnnHandles>(create, &CudaBackend::active().api());
  }());  // stays for good: kernels may still run when the program ends
  return loaded;
}

}  // namespace core::gpu

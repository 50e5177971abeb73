#pragma once
// cuDNN 9 as the files that call it share it: the library, which is loaded when one of them first asks for it, its
// handles, and its numbers for types and precision. Neither its headers nor its library is needed to build.
// Thread safety: all functions. Use: const CudnnHandle handle(*loaded_cudnn_handles(), device); run(handle.get());

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libcore/base/dtype.h"

namespace core::gpu {

struct CudaApi;
class SharedLibrary;

/// Null where cuDNN 9 is not installed.
const SharedLibrary* cudnn_library();

// Numbers of cudnnMathType_t.
inline constexpr int kCudnnDefaultMath = 0, kCudnnTensorOpMath = 1, kCudnnFmaMath = 3;

/// cudnnDataType_t of a floating type.
int cudnn_type(DType dtype);
/// cudnnDataType_t of its sums.
int cudnn_sum_type(DType dtype);
/// f16 and bf16 on tensor cores, f32 in TF32 where that is allowed, else exactly.
int cudnn_math(DType dtype, bool tf32);

/// Handles, each of which serves one thread at a time. They live as long as the process.
class CudnnHandles {
 public:
  using Create = int (*)(void** handle);
  /// Without `runtime` none can be made while a graph is captured.
  explicit CudnnHandles(Create create, const CudaApi* runtime = nullptr) : create_(create), runtime_(runtime) {}
  CudnnHandles(const CudnnHandles&) = delete;
  CudnnHandles& operator=(const CudnnHandles&) = delete;

  /// One of `device`, the current one, that no other thread is using; null when cuDNN refuses.
  void* take(int device);
  void give(int device, void* handle);

 private:
  const Create create_;
  const CudaApi* runtime_;
  std::mutex mutex_;
  std::map<int, std::vector<void*>> idle_;
};

/// The handles of the library; null where there is none.
std::shared_ptr<CudnnHandles> loaded_cudnn_handles();

/// A handle for a scope.
class CudnnHandle {
 public:
  CudnnHandle(CudnnHandles& handles, int device) : handles_(handles), device_(device), handle_(handles.take(device)) {}
  ~CudnnHandle() {
    if (handle_ != nullptr) handles_.give(device_, handle_);
  }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  /// Null when cuDNN refused.
  void* get() const { return handle_; }

 private:
  CudnnHandles& handles_;
  const int device_;
  void* const handle_;
};

}  // namespace core::gpu

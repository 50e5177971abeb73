#pragma once
// Convolution by cuDNN 9 (cudnn_library.h), which is loaded when the first convolution is computed: a machine without
// it runs everything else. Only deterministic algorithms are taken, those that cuDNN's heuristics hold for the fastest.
// f32 is computed in f32 (in TF32 where core::cudnn::set_allow_tf32 said so), f16 and bf16 on tensor cores with sums in
// f32. Descriptors say where channels lie; what is refused once is not tried again.
// Thread safety: all functions. Use: if (Cudnn* dnn = loaded_cudnn()) ... dnn->plan(...) ... dnn->run(...); see
// kernels/conv.cu.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "libcore/backend/cuda/cudnn_library.h"
#include "libcore/backend/image_table.h"
#include "libcore/base/dtype.h"

namespace core::gpu {

/// The result of a heuristic as cuDNN lays it out: cudnnConvolutionFwdAlgoPerf_t and its two siblings.
struct CudnnChoice {
  int algorithm;
  int status;
  float time;
  std::size_t memory;
  int determinism;  ///< 1: deterministic
  int math;
  int reserved[3];
};

/// The calls of cuDNN; numbers of cudnnStatus_t, 0 is success. The arrays of three stand for the passes of ConvPass,
/// whose arguments come in each pass's own order: the two inputs, then the output.
struct CudnnApi {
  CudnnHandles::Create create;
  int (*set_stream)(void* handle, void* stream);
  int (*create_tensor)(void** descriptor);
  int (*set_tensor)(void* descriptor, int format, int type, int n, int c, int h, int w);
  int (*create_filter)(void** descriptor);
  int (*set_filter)(void* descriptor, int type, int format, int out, int in, int h, int w);
  int (*create_convolution)(void** descriptor);
  int (*set_convolution)(void* descriptor, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                         int dilation_w, int mode, int compute_type);
  int (*set_groups)(void* descriptor, int groups);
  int (*set_math)(void* descriptor, int math);
  /// cudnnGetConvolution...Algorithm_v7
  std::array<int (*)(void* handle, void* first, void* second, void* convolution, void* output, int wanted, int* found,
                     CudnnChoice* choices),
             3>
      choose;
  /// cudnnConvolutionForward, BackwardData and BackwardFilter.
  std::array<int (*)(void* handle, const void* alpha, void* first_descriptor, const void* first,
                     void* second_descriptor, const void* second, void* convolution, int algorithm, void* workspace,
                     std::size_t workspace_bytes, const void* beta, void* output_descriptor, void* output),
             3>
      run;

  // Together with the bias; null where they are missing.
  int (*create_activation)(void** descriptor);
  int (*set_activation)(void* descriptor, int mode, int nan, double coefficient);
  /// cudnnConvolutionBiasActivationForward
  int (*run_with_bias)(void* handle, const void* alpha, void* image_descriptor, const void* image,
                       void* weight_descriptor, const void* weight, void* convolution, int algorithm, void* workspace,
                       std::size_t workspace_bytes, const void* addend_factor, void* addend_descriptor,
                       const void* addend, void* bias_descriptor, const void* bias, void* activation,
                       void* output_descriptor, void* output);
};

/// What is convolved: one entry of the cache of plans.
struct CudnnTask {
  ConvPass pass;
  Conv2dSizes sizes;
  DType dtype;
  int device;  ///< the current one
};

/// How a task is done.
struct CudnnPlan {
  ConvPass pass;
  DType dtype;
  int device;
  void *image = nullptr, *weight = nullptr, *output = nullptr, *convolution = nullptr;  ///< descriptors
  int algorithm = 0;
  std::size_t workspace_bytes = 0;
  void *bias = nullptr, *activation = nullptr;  ///< descriptors; null where the bias cannot be added on the way
  /// cuDNN said that it cannot, as it will each time.
  mutable std::atomic<bool> is_refused = false, is_bias_refused = false;
};

/// The three arrays of a convolution, one of which the pass writes, and what it works with.
struct CudnnArrays {
  const void *image, *weight, *output;
  void* stream;
  void* workspace;             ///< of the plan's size
  const void* bias = nullptr;  ///< of a forward pass whose plan can add it
};

class Cudnn {
 public:
  /// Without `handles` it makes its own.
  explicit Cudnn(const CudnnApi& api, std::shared_ptr<CudnnHandles> handles = nullptr)
      : api_(api), handles_(handles != nullptr ? std::move(handles) : std::make_shared<CudnnHandles>(api.create)) {}
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  /// Null where cuDNN cannot do it: padding that differs between the sides, sizes beyond int, no deterministic
  /// algorithm in a gigabyte, a run that was refused. Asked for once a task; valid as long as this lives.
  const CudnnPlan* plan(const CudnnTask& task);
  /// False when cuDNN refuses: then nothing was started.
  bool run(const CudnnPlan& plan, const CudnnArrays& arrays);

 private:
  using Key = std::array<std::int64_t, 22>;
  static Key key_of(const CudnnTask& task, bool tf32);
  std::unique_ptr<CudnnPlan> make(const CudnnTask& task, bool tf32);
  bool describe(const CudnnTask& task, CudnnPlan& plan);
  bool choose(const CudnnTask& task, int math, CudnnPlan& plan);
  void describe_bias(const CudnnTask& task, CudnnPlan& plan);
  int run_plain(void* handle, const CudnnPlan& plan, const CudnnArrays& arrays);
  int run_with_bias(void* handle, const CudnnPlan& plan, const CudnnArrays& arrays);

  const CudnnApi api_;
  const std::shared_ptr<CudnnHandles> handles_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<CudnnPlan>> plans_;  // null: cannot be done
};

/// Null where cuDNN 9 is not installed.
Cudnn* loaded_cudnn();

}  // namespace core::gpu

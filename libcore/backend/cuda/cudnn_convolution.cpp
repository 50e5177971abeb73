#include "libcore/backend/cuda/cudnn_convolution.h"

#include <algorithm>
#include <limits>

#include "libcore/backend/cuda/shared_library.h"
#include "libcore/backend/cuda_math.h"

namespace core::gpu {
namespace {

// Numbers of cudnn_graph_v9.h and cudnn_ops_v9.h.
constexpr int kNchw = 0, kNhwc = 1, kCrossCorrelation = 1, kDeterministic = 1;
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

int format_of(ImageOrder order) {
  return order == ImageOrder::channels_last ? kNhwc : kNchw;
}

/// Output size of one dimension where the padding is the same on both sides.
std::int64_t even_output(std::int64_t in, std::int64_t pad, std::int64_t kernel, std::int64_t dilation,
                         std::int64_t stride) {
  return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/// cuDNN pads both sides alike; what is missing or too much behind the last window does not matter.
bool fits(const Conv2dSizes& s) {
  const std::int64_t images[] = {s.batch, s.in_channels, s.in_h, s.in_w};
  const std::int64_t outputs[] = {s.batch, s.out_channels, s.out_h, s.out_w};
  for (const auto* sizes : {&images, &outputs}) {
    std::int64_t count = 1;
    for (const std::int64_t size : *sizes) {
      if (size <= 0 || count > std::numeric_limits<int>::max() / size) return false;
      count *= size;
    }
  }
  return even_output(s.in_h, s.pad_top, s.kernel_h, s.dilation_h, s.stride_h) == s.out_h &&
         even_output(s.in_w, s.pad_left, s.kernel_w, s.dilation_w, s.stride_w) == s.out_w;
}

int narrow(std::int64_t size) {
  return static_cast<int>(size);
}

/// The two inputs of a pass and its output, in the order in which cuDNN takes them.
template <class T>
std::array<T, 3> in_order(ConvPass pass, const T& image, const T& weight, const T& output) {
  if (pass == ConvPass::forward) return {image, weight, output};
  if (pass == ConvPass::input_grad) return {weight, output, image};
  return {image, output, weight};
}

struct CudnnArray {
  void* descriptor;
  const void* data;
};

}  // namespace

Cudnn::Key Cudnn::key_of(const CudnnTask& task, bool tf32) {
  const Conv2dSizes& s = task.sizes;
  return {static_cast<std::int64_t>(task.pass),
          static_cast<std::int64_t>(task.dtype) * 2 + (tf32 ? 1 : 0),
          task.device,
          s.batch,
          s.in_channels,
          s.in_h,
          s.in_w,
          s.out_channels,
          s.out_h,
          s.out_w,
          s.kernel_h,
          s.kernel_w,
          s.stride_h,
          s.stride_w,
          s.pad_top,
          s.pad_left,
          s.pad_bottom,
          s.pad_right,
          s.dilation_h,
          s.dilation_w,
          s.groups,
          static_cast<std::int64_t>(s.order)};
}

const CudnnPlan* Cudnn::plan(const CudnnTask& task) {
  const bool tf32 = task.dtype == DType::f32 && cudnn::is_tf32_allowed();
  const Key key = key_of(task, tf32);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) {
      const CudnnPlan* plan = found->second.get();
      return plan == nullptr || plan->is_refused.load(std::memory_order_relaxed) ? nullptr : plan;
    }
  }
  auto made = make(task, tf32);
  const std::lock_guard lock(mutex_);
  return plans_.try_emplace(key, std::move(made)).first->second.get();
}

std::unique_ptr<CudnnPlan> Cudnn::make(const CudnnTask& task, bool tf32) {
  if (!fits(task.sizes)) return nullptr;
  auto plan = std::make_unique<CudnnPlan>(task.pass, task.dtype, task.device);
  const int math = cudnn_math(task.dtype, tf32);
  if (!describe(task, *plan) || api_.set_math(plan->convolution, math) != 0) return nullptr;
  if (!choose(task, math, *plan)) return nullptr;
  describe_bias(task, *plan);
  return plan;
}

/// Adding a bias and nothing else is what cuDNN does with one algorithm alone.
void Cudnn::describe_bias(const CudnnTask& task, CudnnPlan& plan) {
  constexpr int kImplicitPrecompGemm = 1, kIdentity = 5, kNotPropagateNan = 0;
  const bool can = api_.create_activation != nullptr && api_.set_activation != nullptr && api_.run_with_bias != nullptr;
  if (!can || task.pass != ConvPass::forward || plan.algorithm != kImplicitPrecompGemm) return;
  void *bias = nullptr, *activation = nullptr;
  const bool made = api_.create_tensor(&bias) == 0 && api_.create_activation(&activation) == 0 &&
                    api_.set_tensor(bias, format_of(task.sizes.order), cudnn_type(task.dtype), 1,
                                    narrow(task.sizes.out_channels), 1, 1) == 0 &&
                    api_.set_activation(activation, kIdentity, kNotPropagateNan, 0) == 0;
  if (!made) return;
  plan.bias = bias;
  plan.activation = activation;
}

/// Makes the descriptors; they stay for good, as the plan does.
bool Cudnn::describe(const CudnnTask& task, CudnnPlan& plan) {
  const Conv2dSizes& s = task.sizes;
  const int format = format_of(s.order);
  const int type = cudnn_type(task.dtype), compute = cudnn_sum_type(task.dtype);
  const bool made = api_.create_tensor(&plan.image) == 0 && api_.create_tensor(&plan.output) == 0 &&
                    api_.create_filter(&plan.weight) == 0 && api_.create_convolution(&plan.convolution) == 0;
  return made &&
         api_.set_tensor(plan.image, format, type, narrow(s.batch), narrow(s.in_channels), narrow(s.in_h),
                         narrow(s.in_w)) == 0 &&
         api_.set_tensor(plan.output, format, type, narrow(s.batch), narrow(s.out_channels), narrow(s.out_h),
                         narrow(s.out_w)) == 0 &&
         api_.set_filter(plan.weight, type, format, narrow(s.out_channels), narrow(s.in_channels / s.groups),
                         narrow(s.kernel_h), narrow(s.kernel_w)) == 0 &&
         api_.set_convolution(plan.convolution, narrow(s.pad_top), narrow(s.pad_left), narrow(s.stride_h),
                              narrow(s.stride_w), narrow(s.dilation_h), narrow(s.dilation_w), kCrossCorrelation,
                              compute) == 0 &&
         api_.set_groups(plan.convolution, narrow(s.groups)) == 0;
}

/// The first of the heuristic's choices that will do: they come fastest first.
bool Cudnn::choose(const CudnnTask& task, int math, CudnnPlan& plan) {
  constexpr int kWanted = 8;
  CudnnChoice choices[kWanted] = {};
  int found = 0;
  const auto order = in_order(task.pass, plan.image, plan.weight, plan.output);
  const CudnnHandle handle(*handles_, task.device);
  if (handle.get() == nullptr) return false;
  const int status = api_.choose[static_cast<std::size_t>(task.pass)](
      handle.get(), order[0], order[1], plan.convolution, order[2], kWanted, &found, choices);
  if (status != 0) return false;
  const auto will_do = [&](const CudnnChoice& c) {
    const bool exact = math != kCudnnFmaMath || c.math == kCudnnFmaMath || c.math == kCudnnDefaultMath;
    return c.status == 0 && c.determinism == kDeterministic && c.memory <= kMostWorkspace && exact;
  };
  const CudnnChoice* end = choices + std::min(found, kWanted);
  const CudnnChoice* best = std::find_if(static_cast<const CudnnChoice*>(choices), end, will_do);
  if (best == end) return false;
  plan.algorithm = best->algorithm;
  plan.workspace_bytes = best->memory;
  return math == kCudnnFmaMath || api_.set_math(plan.convolution, best->math) == 0;
}

namespace {

/// 1 and 0 in the type of the sums.
struct Factors {
  const void *one, *zero;
  explicit Factors(DType dtype) {
    static constexpr double kExact[2] = {1, 0};
    static constexpr float kSingle[2] = {1, 0};
    const bool wide = dtype == DType::f64;
    one = wide ? static_cast<const void*>(kExact) : kSingle;
    zero = wide ? static_cast<const void*>(kExact + 1) : kSingle + 1;
  }
};

/// CUDNN_STATUS_NOT_SUPPORTED and its kinds, which the same call is answered with each time.
bool is_not_supported(int status) {
  return status / 1000 == 3;
}

}  // namespace

int Cudnn::run_with_bias(void* handle, const CudnnPlan& plan, const CudnnArrays& a) {
  const Factors factor(plan.dtype);
  return api_.run_with_bias(handle, factor.one, plan.image, a.image, plan.weight, a.weight, plan.convolution,
                            plan.algorithm, a.workspace, plan.workspace_bytes, factor.zero, plan.output, a.output,
                            plan.bias, a.bias, plan.activation, plan.output, const_cast<void*>(a.output));
}

int Cudnn::run_plain(void* handle, const CudnnPlan& plan, const CudnnArrays& a) {
  const Factors factor(plan.dtype);
  const CudnnArray image{plan.image, a.image}, weight{plan.weight, a.weight}, output{plan.output, a.output};
  const auto order = in_order(plan.pass, image, weight, output);
  return api_.run[static_cast<std::size_t>(plan.pass)](handle, factor.one, order[0].descriptor, order[0].data,
                                                       order[1].descriptor, order[1].data, plan.convolution,
                                                       plan.algorithm, a.workspace, plan.workspace_bytes, factor.zero,
                                                       order[2].descriptor, const_cast<void*>(order[2].data));
}

bool Cudnn::run(const CudnnPlan& plan, const CudnnArrays& a) {
  const bool with_bias = a.bias != nullptr;
  std::atomic<bool>& refused = with_bias ? plan.is_bias_refused : plan.is_refused;
  if (refused.load(std::memory_order_relaxed)) return false;
  const CudnnHandle handle(*handles_, plan.device);
  if (handle.get() == nullptr) return false;
  int status = api_.set_stream(handle.get(), a.stream);
  if (status == 0) {
    status = with_bias ? run_with_bias(handle.get(), plan, a) : run_plain(handle.get(), plan, a);
    if (is_not_supported(status)) refused.store(true, std::memory_order_relaxed);
  }
  return status == 0;
}

namespace {

void load_bias(const SharedLibrary& library, CudnnApi& api) {
  const bool found = library.find("cudnnCreateActivationDescriptor", api.create_activation) &&
                     library.find("cudnnSetActivationDescriptor", api.set_activation) &&
                     library.find("cudnnConvolutionBiasActivationForward", api.run_with_bias);
  if (!found) api.run_with_bias = nullptr;
}

bool load(CudnnApi& api) {
  const SharedLibrary* library = cudnn_library();
  if (library != nullptr) load_bias(*library, api);
  return library != nullptr && library->find("cudnnCreate", api.create) &&
         library->find("cudnnSetStream", api.set_stream) &&
         library->find("cudnnCreateTensorDescriptor", api.create_tensor) &&
         library->find("cudnnSetTensor4dDescriptor", api.set_tensor) &&
         library->find("cudnnCreateFilterDescriptor", api.create_filter) &&
         library->find("cudnnSetFilter4dDescriptor", api.set_filter) &&
         library->find("cudnnCreateConvolutionDescriptor", api.create_convolution) &&
         library->find("cudnnSetConvolution2dDescriptor", api.set_convolution) &&
         library->find("cudnnSetConvolutionGroupCount", api.set_groups) &&
         library->find("cudnnSetConvolutionMathType", api.set_math) &&
         library->find("cudnnGetConvolutionForwardAlgorithm_v7", api.choose[0]) &&
         library->find("cudnnGetConvolutionBackwardDataAlgorithm_v7", api.choose[1]) &&
         library->find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", api.choose[2]) &&
         library->find("cudnnConvolutionForward", api.run[0]) &&
         library->find("cudnnConvolutionBackwardData", api.run[1]) &&
         library->find("cudnnConvolutionBackwardFilter", api.run[2]);
}

}  // namespace

Cudnn* loaded_cudnn() {
  static Cudnn* const loaded = []() -> Cudnn* {
    CudnnApi api{};
    return load(api) ? new Cudnn(api, loaded_cudnn_handles())
                     : nullptr;  // stays for good: kernels may still run when the program ends
  }();
  return loaded;
}

}  // namespace core::gpu

#include "libcore/backend/cuda/cudnn_recurrent.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/shared_library.h"
#include "libcore/backend/cuda_math.h"

namespace core::gpu {
namespace {

// Numbers of cudnn_adv_v9.h.
constexpr int kStandard = 0, kPersistStatic = 1;                  // cudnnRNNAlgo_t
constexpr int kNoBias = 0, kDoubleBias = 2;                       // cudnnRNNBiasMode_t
constexpr int kOneDirection = 0, kLinearInput = 0;                // cudnnDirectionMode_t, cudnnRNNInputMode_t
constexpr int kInference = 0, kTraining = 1;                      // cudnnForwardMode_t
constexpr int kPackedSteps = 1, kAddGrad = 0, kOnlyPackedIo = 0;  // cudnnRNNDataLayout_t, cudnnWgradMode_t, flags

/// cudnnRNNMode_t
int cell_of(RecurrentKind kind) {
  if (kind == RecurrentKind::lstm) return 2;
  if (kind == RecurrentKind::gru) return 3;
  return kind == RecurrentKind::relu ? 0 : 1;
}

int gates_of(RecurrentKind kind) {
  return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1;
}

/// Whether every array has as many elements as cuDNN's ints can say.
bool fits(const WholeLayer& l) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  for (const std::int64_t size : {l.steps, l.batch, l.input, l.hidden}) {
    if (size <= 0 || size > kMost) return false;
  }
  const std::int64_t width = std::max(l.input, l.hidden);
  return l.hidden <= kMost / width / gates_of(l.kind) && l.batch <= kMost / l.steps / width;
}

int narrow_recurrent(std::int64_t size) {
  return static_cast<int>(size);
}

std::size_t bytes_of(DType dtype, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * static_cast<std::size_t>(bit_width(dtype)) / 8;
}

}  // namespace

/// Descriptors stay for good, as the plan does. `calls` is held by who calls cuDNN with them: it says nowhere that two
/// threads may.
struct CudnnLayers::Plan {
  /// Part of weight or bias `source` (as the four stand in the parameters) and where it lies in the buffer of all.
  struct Place {
    int source;
    std::size_t from, to, bytes;
  };

  WholeLayer layer;
  int device;
  WholeLayerPlan needs{};
  void *network = nullptr, *dropout = nullptr, *x = nullptr, *y = nullptr, *state = nullptr;
  void *matrix = nullptr, *bias = nullptr;  // what weight_place describes
  std::atomic<bool> is_refused{false};
  std::mutex calls;
  std::vector<Place> places;  // found by the first call

  Plan(const WholeLayer& its_layer, int its_device) : layer(its_layer), device(its_device) {}
  bool is_lstm() const { return layer.kind == RecurrentKind::lstm; }
  void* cell_state() const { return is_lstm() ? state : nullptr; }
  std::size_t packed_bytes() const {
    std::size_t sum = 0;
    for (const Place& place : places) sum += place.bytes;
    return sum;
  }
};

CudnnLayers::CudnnLayers(const CudnnLayerApi& api, const CudaApi& runtime, std::shared_ptr<CudnnHandles> handles)
    : api_(api), runtime_(runtime), handles_(std::move(handles)) {}

CudnnLayers::~CudnnLayers() = default;

bool CudnnLayers::plan(const WholeLayer& l, int device, WholeLayerPlan& out) {
  const bool tf32 = l.dtype == DType::f32 && cudnn::is_tf32_allowed();
  const Key key{static_cast<std::int64_t>(l.kind),
                static_cast<std::int64_t>(l.dtype) * 2 + (tf32 ? 1 : 0),
                (l.bias ? 2 : 0) + (l.training ? 1 : 0),
                device,
                l.steps,
                l.batch,
                l.input,
                l.hidden};
  const auto give = [&](const Plan* plan) {
    if (plan == nullptr || plan->is_refused) return false;
    out = plan->needs;
    return true;
  };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) return give(found->second.get());
  }
  auto made = make(l, device, tf32);
  const std::lock_guard lock(mutex_);
  return give(plans_.try_emplace(key, std::move(made)).first->second.get());
}

/// The persistent kernels keep the weights of the state in registers from step to step. PyTorch takes them where they
/// were measured to be faster: f16, widths that are multiples of 128, batches of 8 to 128 rows, a large GPU of compute
/// capability 8.0 or more (not 8.6), never a GRU.
int CudnnLayers::fast_algorithm(const WholeLayer& l, int device) const {
  if (l.dtype != DType::f16 || l.kind == RecurrentKind::gru) return kStandard;
  if (l.hidden > 1024 || l.hidden % 128 != 0 || l.input % 128 != 0) return kStandard;
  if (l.batch % 8 != 0 || l.batch > 128) return kStandard;
  if (l.kind != RecurrentKind::lstm && l.batch >= 96 && l.hidden >= 896) return kStandard;
  DeviceProperties gpu{};
  if (runtime_.properties(device, &gpu) != kSuccess) return kStandard;
  const bool is_large = gpu.major >= 8 && gpu.minor != 6 && gpu.multiprocessors >= 98;
  return is_large ? kPersistStatic : kStandard;
}

std::unique_ptr<CudnnLayers::Plan> CudnnLayers::make(const WholeLayer& layer, int device, bool tf32) {
  if (!fits(layer)) return nullptr;
  const CudnnHandle handle(*handles_, device);
  if (handle.get() == nullptr) return nullptr;
  const RelaxedCapture relaxed(runtime_);
  const int fast = fast_algorithm(layer, device), math = cudnn_math(layer.dtype, tf32);
  auto plan = std::make_unique<Plan>(layer, device);
  plan->needs.how = plan.get();
  if (!describe_arrays(*plan)) return nullptr;
  if (describe(handle.get(), fast, math, *plan)) return plan;
  return fast != kStandard && describe(handle.get(), kStandard, math, *plan) ? std::move(plan) : nullptr;
}

bool CudnnLayers::describe_arrays(Plan& plan) {
  const WholeLayer& l = plan.layer;
  const int type = cudnn_type(l.dtype), steps = narrow_recurrent(l.steps), batch = narrow_recurrent(l.batch),
            hidden = narrow_recurrent(l.hidden);
  const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
  const int sizes[3] = {1, batch, hidden}, strides[3] = {batch * hidden, hidden, 1};
  return api_.create_steps(&plan.x) == 0 && api_.create_steps(&plan.y) == 0 && api_.create_tensor(&plan.state) == 0 &&
         api_.create_tensor(&plan.matrix) == 0 && api_.create_tensor(&plan.bias) == 0 &&
         api_.set_steps(plan.x, type, kPackedSteps, steps, batch, narrow_recurrent(l.input), lengths.data(), nullptr) ==
             0 &&
         api_.set_steps(plan.y, type, kPackedSteps, steps, batch, hidden, lengths.data(), nullptr) == 0 &&
         api_.set_tensor(plan.state, type, 3, sizes, strides) == 0;
}

/// The layer by `algorithm`, and what it needs. A projection as wide as the state is none.
bool CudnnLayers::describe(void* handle, int algorithm, int math, Plan& plan) {
  constexpr int kLayers = 1;
  const WholeLayer& l = plan.layer;
  WholeLayerPlan& needs = plan.needs;
  const int hidden = narrow_recurrent(l.hidden);
  const bool described =
      api_.create_dropout(&plan.dropout) == 0 && api_.set_dropout(plan.dropout, handle, 0, nullptr, 0, 0) == 0 &&
      api_.create_layer(&plan.network) == 0 &&
      api_.set_layer(plan.network, algorithm, cell_of(l.kind), l.bias ? kDoubleBias : kNoBias, kOneDirection,
                     kLinearInput, cudnn_type(l.dtype), cudnn_sum_type(l.dtype), math, narrow_recurrent(l.input),
                     hidden, hidden, kLayers, plan.dropout, kOnlyPackedIo) == 0;
  return described && api_.weight_bytes(handle, plan.network, &needs.weights) == 0 &&
         api_.work_bytes(handle, plan.network, l.training ? kTraining : kInference, plan.x, &needs.work,
                         &needs.reserve) == 0;
}

/// False, and the plan is given up, when cuDNN refuses. What it makes at its first call, a capture may forbid.
template <class Body>
bool CudnnLayers::call(Plan& plan, StreamHandle stream, const Body& body) {
  const std::lock_guard lock(plan.calls);
  const CudnnHandle handle(*handles_, plan.device);
  const RelaxedCapture relaxed(runtime_);
  const bool is_done = handle.get() != nullptr && api_.set_stream(handle.get(), stream) == 0 && body(handle.get());
  if (is_done) return true;
  plan.is_refused = true;
  runtime_.last_error();  // not for the next launch to report
  return false;
}

// --- Weights

/// Asks where cuDNN wants each gate's part of the weights and biases. Parts that follow one another are one copy.
bool CudnnLayers::find_places(void* handle, Plan& plan, const void* weights) {
  const int gates = gates_of(plan.layer.kind), sources = plan.layer.bias ? 4 : 2;
  for (int source = 0; source < sources; ++source) {
    for (int gate = 0; gate < gates; ++gate) {
      void *matrix = nullptr, *bias = nullptr;
      const int part = source % 2 * gates + gate;  // those of the input, then those of the state
      const int status = api_.weight_place(handle, plan.network, 0, plan.needs.weights, weights, part, plan.matrix,
                                           &matrix, plan.bias, &bias);
      const bool is_matrix = source < 2;
      const bool found = status == 0 && add_place(plan, source, gate, weights, is_matrix ? matrix : bias,
                                                  is_matrix ? plan.matrix : plan.bias);
      if (!found) {
        plan.places.clear();
        return false;
      }
    }
  }
  return true;
}

/// False when what is there has another size, or lies outside.
bool CudnnLayers::add_place(Plan& plan, int source, int gate, const void* weights, const void* place,
                            void* descriptor) {
  constexpr int kMostDims = 3;
  int type = 0, dims = 0, sizes[kMostDims] = {}, strides[kMostDims] = {};
  if (place == nullptr || api_.get_tensor(descriptor, kMostDims, &type, &dims, sizes, strides) != 0) return false;
  const WholeLayer& l = plan.layer;
  std::int64_t elements = 1;
  for (int i = 0; i < std::min(dims, kMostDims); ++i) elements *= sizes[i];
  const std::int64_t columns = source == 0 ? l.input : source == 1 ? l.hidden : 1;
  const std::size_t bytes = bytes_of(l.dtype, columns * l.hidden), from = static_cast<std::size_t>(gate) * bytes;
  const auto to = static_cast<std::size_t>(static_cast<const char*>(place) - static_cast<const char*>(weights));
  const bool is_inside = bytes <= plan.needs.weights && to <= plan.needs.weights - bytes;
  if (elements != columns * l.hidden || !is_inside) return false;
  if (!plan.places.empty()) {
    Plan::Place& last = plan.places.back();
    if (last.source == source && last.from + last.bytes == from && last.to + last.bytes == to) {
      last.bytes += bytes;
      return true;
    }
  }
  plan.places.push_back({source, from, to, bytes});
  return true;
}

/// Gaps, where there are any, hold zeros.
bool CudnnLayers::pack(void* handle, Plan& plan, const std::array<const void*, 4>& from, void* weights,
                       StreamHandle stream) {
  if (plan.places.empty() && !find_places(handle, plan, weights)) return false;
  const bool has_gaps = plan.packed_bytes() < plan.needs.weights;
  if (has_gaps && runtime_.fill(weights, 0, plan.needs.weights, stream) != kSuccess) return false;
  return std::all_of(plan.places.begin(), plan.places.end(), [&](const Plan::Place& place) {
    const char* source = static_cast<const char*>(from[static_cast<std::size_t>(place.source)]) + place.from;
    return runtime_.copy(static_cast<char*>(weights) + place.to, source, place.bytes, stream) == kSuccess;
  });
}

bool CudnnLayers::unpack(const Plan& plan, const void* weights, const std::array<void*, 4>& to, StreamHandle stream) {
  return std::all_of(plan.places.begin(), plan.places.end(), [&](const Plan::Place& place) {
    char* target = static_cast<char*>(to[static_cast<std::size_t>(place.source)]) + place.from;
    return runtime_.copy(target, static_cast<const char*>(weights) + place.to, place.bytes, stream) == kSuccess;
  });
}

// --- Calls

bool CudnnLayers::forward(void* handle, const Plan& plan, const WholeLayerParams& p) {
  const int mode = plan.layer.training ? kTraining : kInference;
  return api_.forward(handle, plan.network, mode, nullptr, plan.x, p.x, plan.y, p.y, plan.state, p.h0, p.h,
                      plan.cell_state(), p.c0, p.c, plan.needs.weights, p.weights, plan.needs.work, p.work,
                      plan.needs.reserve, p.reserve) == 0;
}

void CudnnLayers::run(WholeLayerParams& p, StreamHandle stream) {
  auto& plan = *static_cast<Plan*>(const_cast<void*>(p.plan.how));
  p.is_done = call(plan, stream, [&](void* handle) {
    return pack(handle, plan, {p.w_ih, p.w_hh, p.b_ih, p.b_hh}, p.weights, stream) && forward(handle, plan, p);
  });
}

bool CudnnLayers::data_grad(void* handle, const Plan& plan, const WholeLayerGradParams& p) {
  return api_.data_grad(handle, plan.network, nullptr, plan.y, p.y, p.y_grad, plan.x, p.x_grad, plan.state, p.h0,
                        p.h_grad, p.h0_grad, plan.cell_state(), p.c0, p.c_grad, p.c0_grad, plan.needs.weights,
                        p.weights, plan.needs.work, p.work, plan.needs.reserve, p.reserve) == 0;
}

/// cuDNN adds to what is there. REQUIRES: data_grad() came before.
bool CudnnLayers::weight_grad(void* handle, const Plan& plan, const WholeLayerGradParams& p, StreamHandle stream) {
  return runtime_.fill(p.weights_grad, 0, plan.needs.weights, stream) == kSuccess &&
         api_.weight_grad(handle, plan.network, kAddGrad, nullptr, plan.x, p.x, plan.state, p.h0, plan.y, p.y,
                          plan.needs.weights, p.weights_grad, plan.needs.work, p.work, plan.needs.reserve,
                          p.reserve) == 0 &&
         unpack(plan, p.weights_grad, {p.w_ih_grad, p.w_hh_grad, p.b_ih_grad, p.b_hh_grad}, stream);
}

void CudnnLayers::run(WholeLayerGradParams& p, StreamHandle stream) {
  auto& plan = *static_cast<Plan*>(const_cast<void*>(p.plan.how));
  p.is_done = call(plan, stream, [&](void* handle) {
    return pack(handle, plan, {p.w_ih, p.w_hh, p.b_ih, p.b_hh}, p.weights, stream) && data_grad(handle, plan, p) &&
           (p.w_ih_grad == nullptr || weight_grad(handle, plan, p, stream));
  });
}

// --- The library and the table

namespace {

bool load(CudnnLayerApi& api) {
  const SharedLibrary* library = cudnn_library();
  return library != nullptr && library->find("cudnnSetStream", api.set_stream) &&
         library->find("cudnnCreateTensorDescriptor", api.create_tensor) &&
         library->find("cudnnSetTensorNdDescriptor", api.set_tensor) &&
         library->find("cudnnGetTensorNdDescriptor", api.get_tensor) &&
         library->find("cudnnCreateDropoutDescriptor", api.create_dropout) &&
         library->find("cudnnSetDropoutDescriptor", api.set_dropout) &&
         library->find("cudnnCreateRNNDescriptor", api.create_layer) &&
         library->find("cudnnSetRNNDescriptor_v8", api.set_layer) &&
         library->find("cudnnCreateRNNDataDescriptor", api.create_steps) &&
         library->find("cudnnSetRNNDataDescriptor", api.set_steps) &&
         library->find("cudnnGetRNNWeightSpaceSize", api.weight_bytes) &&
         library->find("cudnnGetRNNWeightParams", api.weight_place) &&
         library->find("cudnnGetRNNTempSpaceSizes", api.work_bytes) && library->find("cudnnRNNForward", api.forward) &&
         library->find("cudnnRNNBackwardData_v8", api.data_grad) &&
         library->find("cudnnRNNBackwardWeights_v8", api.weight_grad);
}

/// Null where cuDNN 9 is not installed.
CudnnLayers* loaded_layers() {
  static CudnnLayers* const loaded = []() -> CudnnLayers* {
    CudnnLayerApi api{};
    if (loaded_cudnn_handles() == nullptr || !load(api)) return nullptr;
    return new CudnnLayers(api, CudaBackend::active().api(), loaded_cudnn_handles());  // stays for good, as the handles
  }();
  return loaded;
}

bool plan_on_active(const WholeLayer& layer, WholeLayerPlan& plan) {
  CudnnLayers* layers = loaded_layers();
  if (layers == nullptr) return false;
  const CudaBackend& backend = CudaBackend::active();
  const CudaBackend::Current here(backend);
  return layers->plan(layer, backend.gpu(), plan);
}

/// REQUIRES: a plan.
template <class Params>
void run_on_active(Params& params) {
  const CudaBackend& backend = CudaBackend::active();
  const CudaBackend::Current here(backend);
  loaded_layers()->run(params, backend.current_stream());
}

}  // namespace

void fill_whole_layers(RecurrentTable& table) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const auto slot = static_cast<std::size_t>(dtype);
    table.plan_whole_layer[slot] = plan_on_active;
    table.whole_layer[slot] = run_on_active<WholeLayerParams>;
    table.whole_layer_grad[slot] = run_on_active<WholeLayerGradParams>;
  }
}

}  // namespace core::gpu

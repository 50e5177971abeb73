#pragma once
// Steps of optimizers over lists of tensors: up to 256 tensors a launch, each cut into runs that a team updates,
// 16 bytes of an array at a time where they lie so. Thread safety: plain values. For optimizer.cu and
// optimizer_adaptive.cu alone: for_each_tensor<SgdTensor>(params, update), see there.

#include <cmath>
#include <cstdint>

#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/optimizer_table.h"

namespace core::CORE_KERNELS {

namespace lists {
inline constexpr std::int64_t kRun = 16384;  // elements of a team
inline constexpr std::int64_t kLanes = 512;
inline constexpr int kTensors = 256;  // of a launch: they travel as its argument
/// What CUDA 12.1 and newer let a launch have.
inline constexpr std::size_t kArgumentBytes = 32764;
}  // namespace lists

/// The arrays of a tensor: its parameter, its gradient, its state. Absent ones are null.
inline constexpr int kParameter = 0, kGradient = 1;

/// Some tensors of a list, and the runs they are cut into.
template <class Tensor>
struct TensorBatch {
  Tensor tensors[lists::kTensors];
  std::int64_t first_run[lists::kTensors + 1];  // of each tensor; behind them the number of runs
  bool packs[lists::kTensors];                  // its arrays begin at multiples of 16 bytes
  int count = 0;

  struct Run {
    int tensor;
    std::int64_t begin, end;
  };
  CORE_BODY Run run(std::int64_t index) const {
    int low = 0, high = count;  // the last tensor whose first run is not behind `index`
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_run[middle] <= index ? low : high) = middle;
    }
    const std::int64_t begin = (index - first_run[low]) * lists::kRun;
    return {low, begin, smaller(tensors[low].count, begin + lists::kRun)};
  }
};

/// Updates elements [i, i + V) of a tensor. REQUIRES: V == 1, or the tensor has packs and i is a multiple of V.
template <int V, class Update, class Tensor>
CORE_BODY void update_elements(const Update& update, const Tensor& tensor, std::int64_t i) {
  using T = typename Update::Stored;
  Computed<T> values[Update::kArrays][V];
  CORE_UNROLL
  for (int k = 0; k < Update::kArrays; ++k) {
    const auto* array = static_cast<const T*>(Update::array(tensor, k));
    if (array != nullptr) load_pack<V>(array + i, values[k]);
  }
  CORE_UNROLL
  for (int v = 0; v < V; ++v) {
    Computed<T> element[Update::kArrays] = {};
    CORE_UNROLL
    for (int k = 0; k < Update::kArrays; ++k) {
      if (Update::array(tensor, k) != nullptr) element[k] = values[k][v];
    }
    update(tensor, element);
    CORE_UNROLL
    for (int k = 0; k < Update::kArrays; ++k) values[k][v] = element[k];
  }
  CORE_UNROLL
  for (int k = 0; k < Update::kArrays; ++k) {
    auto* array = static_cast<T*>(const_cast<void*>(Update::array(tensor, k)));
    if (k != kGradient && array != nullptr) store_pack<V>(values[k], array + i);
  }
}

template <class Update, class Tensor>
bool has_packs(const Tensor& tensor) {
  bool fit = true;
  for (int k = 0; k < Update::kArrays; ++k) fit = fit && is_aligned(Update::array(tensor, k), sizeof(Wide));
  return fit;
}

/// Updates every element of every tensor. `update(tensor, element)` changes one: element[k] is that of array k of
/// Update::kArrays, which Update::array(tensor, k) finds, of type Update::Stored in memory. update.start(tensor, the
/// one before) is what of a tensor travels to the device, update.ready(tensor) what the device makes of it.
/// finish(batch), where there is one, follows each launch.
template <class Tensor, class Update, class Params>
void for_each_tensor(const Params& p, const Update& update,
                     void (*finish)(const TensorBatch<Tensor>& batch) = nullptr) {
  static_assert(sizeof(TensorBatch<Tensor>) + sizeof(Update) + 64 <= lists::kArgumentBytes);
  constexpr int kPack = kPackSize<typename Update::Stored>;
  const std::int64_t count = p.tensor_count;
  for (std::int64_t first = 0; first < count; first += lists::kTensors) {
    TensorBatch<Tensor> batch;
    batch.count = static_cast<int>(smaller<std::int64_t>(lists::kTensors, count - first));
    batch.first_run[0] = 0;
    for (int i = 0; i < batch.count; ++i) {
      batch.tensors[i] = update.start(p.tensors[first + i], i == 0 ? nullptr : &batch.tensors[i - 1]);
      batch.first_run[i + 1] = batch.first_run[i] + divide_up(batch.tensors[i].count, lists::kRun);
      batch.packs[i] = has_packs<Update>(batch.tensors[i]);
    }
    for_each_row(batch.first_run[batch.count], lists::kLanes, [=] CORE_BODY(const Team& team, std::int64_t index) {
      const auto run = batch.run(index);
      const Tensor tensor = update.ready(batch.tensors[run.tensor]);
      std::int64_t rest = run.begin;
      if (batch.packs[run.tensor]) {
        rest = run.end - (run.end - run.begin) % kPack;
        for (std::int64_t i = run.begin + team.lane() * kPack; i < rest; i += team.size() * kPack) {
          update_elements<kPack>(update, tensor, i);
        }
      }
      for (std::int64_t i = rest + team.lane(); i < run.end; i += team.size()) update_elements<1>(update, tensor, i);
    });
    if (finish != nullptr) finish(batch);
  }
}

/// The gradient after maximize and weight decay.
template <class W>
struct StepGradient {
  W sign, decay;

  explicit StepGradient(const StepOptions& o)
      : sign(o.maximize ? W(-1) : W(1)), decay(static_cast<W>(o.weight_decay)) {}
  CORE_BODY W operator()(W g, W p) const { return decay == 0 ? g * sign : std::fma(p, decay, g * sign); }
};

/// start + weight * (end - start), from the nearer end.
template <class W>
CORE_BODY W lerp_between(W start, W end, W weight) {
  return weight < W(0.5) ? std::fma(weight, end - start, start) : std::fma(weight - 1, end - start, end);
}

}  // namespace core::CORE_KERNELS

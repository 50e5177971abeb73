#include "libcore/optim/step_lists.h"

#include <algorithm>

#include "libcore/backend/cpu/optimizer/step_grain.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/threads.h"
#include "libcore/optim/detail/step_copies.h"
#include "libcore/optim/host_array.h"

namespace core::detail {
namespace {

/// Dense in the parameter's order (rows, or channels last on a device), of its device and dtype; or not there.
bool lies_as(const Tensor& param, std::initializer_list<const Tensor*> others) {
  const bool rows = param.is_contiguous();
  if (!rows && (param.device().is_cpu() || !param.is_contiguous(MemoryFormat::channels_last))) return false;
  return std::all_of(others.begin(), others.end(), [&](const Tensor* t) {
    if (!t->defined()) return true;
    const bool same_order = rows ? t->is_contiguous() : t->strides() == param.strides();
    return same_order && t->dtype() == param.dtype() && t->numel() == param.numel() &&
           &t->storage()->backend() == &param.storage()->backend();
  });
}

/// The address of what is to be written, which becomes a new version; null where nothing is there.
void* written(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  tensor.impl()->bump_version();
  return tensor.mutable_raw_data();
}

const double* rate_in(const Tensor& lr) {
  return lr.defined() ? static_cast<const double*>(lr.raw_data()) : nullptr;
}

template <class Entry>
std::vector<Entry>& list_for(std::vector<StepList<Entry>>& lists, const Tensor& param) {
  Backend* backend = &param.storage()->backend();
  for (auto& list : lists) {
    if (list.backend == backend && list.dtype == param.dtype()) return list.entries;
  }
  return lists.emplace_back(StepList<Entry>{backend, param.dtype(), {}}).entries;
}

template <class Row>
auto kernel_for(Backend& backend, DType dtype, Row OptimizerTable::*row) {
  const OptimizerTable* table = backend.ops().optimizer;
  return table != nullptr ? (table->*row)[static_cast<std::size_t>(dtype)] : nullptr;
}

StepOptions options_of(const CommonUpdate& common) {
  return {common.lr, common.weight_decay, common.maximize};
}

AdaptiveStepParams adaptive_params(const AdaptiveUpdate& how, std::span<const AdaptiveTensor> tensors) {
  const auto& n = how.numbers;
  return {options_of(how.common),
          how.decoupled,
          {n[0], n[1], n[2], n[3]},
          tensors.data(),
          static_cast<std::int64_t>(tensors.size())};
}

void* later(const void* data, std::size_t bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(const_cast<void*>(data)) + bytes;
}

// `count` elements of a row's arrays, from `bytes` bytes on; and the arrays that a step writes.

SgdTensor part_of(SgdTensor tensor, std::size_t bytes, std::int64_t count) {
  tensor.count = count;
  tensor.param = later(tensor.param, bytes);
  tensor.grad = later(tensor.grad, bytes);
  tensor.momentum = later(tensor.momentum, bytes);
  return tensor;
}
std::array<const void*, 2> written_by(const SgdTensor& tensor) {
  return {tensor.param, tensor.momentum};
}

AdamTensor part_of(AdamTensor tensor, std::size_t bytes, std::int64_t count) {
  tensor.count = count;
  tensor.param = later(tensor.param, bytes);
  tensor.grad = later(tensor.grad, bytes);
  tensor.exp_avg = later(tensor.exp_avg, bytes);
  tensor.exp_avg_sq = later(tensor.exp_avg_sq, bytes);
  tensor.max_exp_avg_sq = later(tensor.max_exp_avg_sq, bytes);
  return tensor;
}
std::array<const void*, 4> written_by(const AdamTensor& tensor) {
  return {tensor.param, tensor.exp_avg, tensor.exp_avg_sq, tensor.max_exp_avg_sq};
}

AdaptiveTensor part_of(AdaptiveTensor tensor, std::size_t bytes, std::int64_t count) {
  tensor.count = count;
  tensor.param = later(tensor.param, bytes);
  tensor.grad = later(tensor.grad, bytes);
  for (void*& state : tensor.state) state = later(state, bytes);
  return tensor;
}
std::array<const void*, 4> written_by(const AdaptiveTensor& tensor) {
  return {tensor.param, tensor.state[0], tensor.state[1], tensor.state[2]};
}

/// Runs a list on the host part by part, and copies each part while it is in the cache. Elements do not see each other,
/// so that the results are those of whole tensors.
template <class Entry, class Run>
void run_with_copies(StepCopies& copies, const StepList<Entry>& list, const Run& run) {
  const auto size = static_cast<std::size_t>(bit_width(list.dtype)) / 8;
  const std::int64_t most = kStepGrain * num_threads();  // a part for every thread
  for (const Entry& entry : list.entries) {
    for (std::int64_t at = 0; at < entry.count; at += most) {
      const Entry part = part_of(entry, static_cast<std::size_t>(at) * size, std::min(most, entry.count - at));
      run(std::span(&part, 1));
      for (const void* written : written_by(part)) copies.copy(written, part.count, size);
    }
  }
}

/// run(entries) for all entries of every list.
template <class Entry, class Run>
void run_lists(const std::vector<StepList<Entry>>& lists, const Run& run) {
  StepCopies* copies = StepCopies::current();
  for (const StepList<Entry>& list : lists) {
    const auto run_list = [&](std::span<const Entry> entries) { run(list, entries); };
    if (copies != nullptr && list.backend->is_host_memory()) {
      run_with_copies(*copies, list, run_list);
    } else {
      run_list(list.entries);
    }
  }
}

}  // namespace

CommonUpdate common_of(const OptionMap& options) {
  const double decay = options.contains("weight_decay") ? options.number("weight_decay") : 0;
  return {options.number("lr"), decay, options.flag("maximize")};
}

SgdStepParams sgd_params(const SgdUpdate& how, std::span<const SgdTensor> tensors) {
  return {options_of(how.common), how.momentum,   how.dampening,
          how.nesterov,           tensors.data(), static_cast<std::int64_t>(tensors.size())};
}

AdamStepParams adam_params(const AdamUpdate& how, std::span<const AdamTensor> tensors) {
  return {options_of(how.common),
          how.beta1,
          how.beta2,
          how.eps,
          how.decoupled,
          tensors.data(),
          static_cast<std::int64_t>(tensors.size())};
}

bool SgdSteps::take(const Tensor& param, const Tensor& grad, const SgdThere& there, const SgdUpdate& how) {
  if (!kernel_for(param.storage()->backend(), param.dtype(), &OptimizerTable::sgd)) return false;
  if (!lies_as(param, {&grad, &there.buffer})) return false;
  list_for(lists_, param)
      .push_back({param.numel(), written(param), grad.raw_data(), written(there.buffer), rate_in(there.lr), how.first});
  return true;
}

void SgdSteps::run(const SgdUpdate& how) const {
  run_lists(lists_, [&](const StepList<SgdTensor>& list, std::span<const SgdTensor> entries) {
    kernel_for(*list.backend, list.dtype, &OptimizerTable::sgd)(sgd_params(how, entries));
  });
}

bool AdamSteps::take(const Tensor& param, const Tensor& grad, const AdamTensors& state, const CountedThere& counted,
                     const AdamUpdate& how) {
  if (!kernel_for(param.storage()->backend(), param.dtype(), &OptimizerTable::adam)) return false;
  if (!lies_as(param, {&grad, &state.exp_avg, &state.exp_avg_sq, &state.top})) return false;
  list_for(lists_, param)
      .push_back({param.numel(), written(param), grad.raw_data(), written(state.exp_avg), written(state.exp_avg_sq),
                  written(state.top), how.step, static_cast<float*>(written(counted.step)), rate_in(counted.lr)});
  return true;
}

void AdamSteps::run(const AdamUpdate& how) const {
  run_lists(lists_, [&](const StepList<AdamTensor>& list, std::span<const AdamTensor> entries) {
    kernel_for(*list.backend, list.dtype, &OptimizerTable::adam)(adam_params(how, entries));
  });
}

bool AdaptiveSteps::take(const Tensor& param, const Tensor& grad, const std::array<Tensor, 3>& state,
                         const std::array<double, 3>& factors) {
  if (!kernel_for(param.storage()->backend(), param.dtype(), row_)) return false;
  if (!lies_as(param, {&grad, &state[0], &state[1], &state[2]})) return false;
  list_for(lists_, param)
      .push_back({param.numel(),
                  written(param),
                  grad.raw_data(),
                  {written(state[0]), written(state[1]), written(state[2])},
                  {factors[0], factors[1], factors[2]}});
  return true;
}

void AdaptiveSteps::run(const AdaptiveUpdate& how) const {
  run_lists(lists_, [&](const StepList<AdaptiveTensor>& list, std::span<const AdaptiveTensor> entries) {
    kernel_for(*list.backend, list.dtype, row_)(adaptive_params(how, entries));
  });
}

void AdaptiveSteps::run_copies(const Tensor& param, const Tensor& grad, const std::array<Tensor, 3>& state,
                               const std::array<double, 3>& factors, const AdaptiveUpdate& how) const {
  in_update_type(param, [&]<class T>() {
    const HostArray<T> p(param), g(grad),
        states[] = {HostArray<T>(state[0]), HostArray<T>(state[1]), HostArray<T>(state[2])};
    const AdaptiveTensor tensor{param.numel(),
                                p.data(),
                                g.data(),
                                {states[0].data(), states[1].data(), states[2].data()},
                                {factors[0], factors[1], factors[2]}};
    run_on_host<T>(row_, adaptive_params(how, {&tensor, 1}));
    p.commit();
    for (const auto& array : states) array.commit();
  });
}

}  // namespace core::detail

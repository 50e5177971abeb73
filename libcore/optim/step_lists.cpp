#include "libcore/optim/step_lists.h"

#include <algorithm>

#include "libcore/backend/op_tables.h"
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
  for (const auto& list : lists_) {
    kernel_for(*list.backend, list.dtype, &OptimizerTable::sgd)(sgd_params(how, list.entries));
  }
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
  for (const auto& list : lists_) {
    kernel_for(*list.backend, list.dtype, &OptimizerTable::adam)(adam_params(how, list.entries));
  }
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
  for (const auto& list : lists_) {
    kernel_for(*list.backend, list.dtype, row_)(adaptive_params(how, list.entries));
  }
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

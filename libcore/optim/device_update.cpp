#include "libcore/optim/device_update.h"

#include <algorithm>
#include <initializer_list>

namespace core::detail {
namespace {

Backend& backend_of(const Tensor& x) {
  return x.storage()->backend();
}

/// Whether all that is defined lies as the parameter does, element for element.
bool lie_alike(const Tensor& param, std::initializer_list<const Tensor*> state) {
  const auto alike = [&](const Tensor* x) {
    return !x->defined() || (x->is_contiguous() && x->dtype() == param.dtype() && x->numel() == param.numel() &&
                             &backend_of(*x) == &backend_of(param));
  };
  return param.is_contiguous() && std::all_of(state.begin(), state.end(), alike);
}

/// The kernel for a parameter, or null.
template <class Row>
auto kernel_for(Backend& backend, DType dtype, Row OptimizerTable::*row) {
  const OptimizerTable* table = backend.ops().optimizer;
  using Kernel = typename Row::value_type;
  return table == nullptr ? Kernel(nullptr) : (table->*row)[static_cast<std::size_t>(dtype)];
}

template <class Entry>
DeviceBatch<Entry>& batch_of(std::vector<DeviceBatch<Entry>>& batches, const Tensor& param) {
  for (DeviceBatch<Entry>& batch : batches) {
    if (batch.backend == &backend_of(param) && batch.dtype == param.dtype()) return batch;
  }
  return batches.emplace_back(DeviceBatch<Entry>{&backend_of(param), param.dtype(), {}, {}});
}

/// The gradient as the parameter lies; a copy of it is kept.
template <class Entry>
const void* dense_gradient(DeviceBatch<Entry>& batch, const Tensor& param, const Tensor& grad) {
  if (grad.is_contiguous() && grad.dtype() == param.dtype()) return grad.raw_data();
  return batch.kept.emplace_back(grad.detach().to(param.dtype()).contiguous()).raw_data();
}

/// Where a kernel writes; the tensor gets a new version.
void* written(const Tensor& x) {
  if (!x.defined()) return nullptr;
  x.impl()->bump_version();
  return const_cast<void*>(x.raw_data());
}

StepOptions options_of(const CommonUpdate& common) {
  return {common.lr, common.weight_decay, common.maximize};
}

}  // namespace

bool DeviceSgd::take(const Tensor& param, const Tensor& grad, const Tensor& buffer, bool first) {
  if (kernel_for(backend_of(param), param.dtype(), &OptimizerTable::sgd) == nullptr) return false;
  if (!lie_alike(param, {&buffer}) || &backend_of(grad) != &backend_of(param)) return false;
  DeviceBatch<SgdTensor>& batch = batch_of(batches_, param);
  const void* gradient = dense_gradient(batch, param, grad);
  batch.entries.push_back({param.numel(), written(param), gradient, written(buffer), first});
  return true;
}

void DeviceSgd::run() {
  for (const DeviceBatch<SgdTensor>& batch : batches_) {
    kernel_for(*batch.backend, batch.dtype,
               &OptimizerTable::sgd)({options_of(how_.common), how_.momentum, how_.dampening, how_.nesterov,
                                      batch.entries.data(), static_cast<std::int64_t>(batch.entries.size())});
  }
}

bool DeviceAdam::take(const Tensor& param, const Tensor& grad, const AdamDeviceState& state) {
  if (kernel_for(backend_of(param), param.dtype(), &OptimizerTable::adam) == nullptr) return false;
  if (!lie_alike(param, {&state.exp_avg, &state.exp_avg_sq, &state.top})) return false;
  if (&backend_of(grad) != &backend_of(param)) return false;
  DeviceBatch<AdamTensor>& batch = batch_of(batches_, param);
  const void* gradient = dense_gradient(batch, param, grad);
  batch.entries.push_back({param.numel(), written(param), gradient, written(state.exp_avg), written(state.exp_avg_sq),
                           written(state.top), state.step, static_cast<float*>(written(state.step_count))});
  return true;
}

void DeviceAdam::run() {
  for (const DeviceBatch<AdamTensor>& batch : batches_) {
    kernel_for(*batch.backend, batch.dtype,
               &OptimizerTable::adam)({options_of(how_.common), how_.beta1, how_.beta2, how_.eps, how_.decoupled,
                                       batch.entries.data(), static_cast<std::int64_t>(batch.entries.size())});
  }
}

}  // namespace core::detail

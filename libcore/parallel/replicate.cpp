#include "libcore/parallel/replicate.h"

#include <unordered_map>

#include "libcore/autograd/node.h"
#include "libcore/tensor/ops.h"

namespace core::detail {
namespace {

/// Gradients of all replicas' parameters to gradients of the originals: sums in device order, whatever came first.
struct BroadcastBackward final : Node {
  std::size_t params = 0;
  Device home;

  std::string_view name() const override { return "BroadcastBackward"; }
  TensorList apply(TensorList grads) override {
    TensorList sums;
    for (std::size_t param = 0; param < params; ++param) {
      Tensor sum;
      for (std::size_t at = param; at < grads.size(); at += params) {
        if (!grads[at].defined()) continue;
        Tensor grad = grads[at].to(home);
        sum = sum.defined() ? sum + grad : grad;
      }
      sums.push_back(sum);
    }
    return sums;
  }
};

/// The parameters of a module, each once, and where each handle of the module finds its own.
struct Originals {
  std::vector<Tensor> params;
  std::vector<std::size_t> learning;  ///< indices of those that want a gradient
  std::unordered_map<const TensorImpl*, std::size_t> index;

  explicit Originals(Module& module) {
    for (const TensorSlot& slot : module.tensor_slots()) {
      if (slot.kind != TensorSlot::Kind::parameter || !slot.tensor->defined()) continue;
      if (!index.emplace(slot.tensor->impl(), params.size()).second) continue;
      if (slot.tensor->requires_grad()) learning.push_back(params.size());
      params.push_back(*slot.tensor);
    }
  }
};

/// Fresh handles for one device, connected to `node` where the original learns.
std::vector<Tensor> connected(std::vector<Tensor> copies, const Originals& originals,
                              const IntrusivePtr<BroadcastBackward>& node) {
  for (Tensor& copy : copies) copy = copy.detach();
  if (node) {
    for (std::size_t i : originals.learning) record(copies[i], node);
  }
  return copies;
}

/// Puts the handles in the place of the replica's parameters, and copies its buffers to the device.
void rebind(Module& replica, const Originals& originals, const std::vector<Tensor>& handles, Device device) {
  std::unordered_map<const TensorImpl*, Tensor> buffers;  // buffers shared inside the module stay shared
  for (const TensorSlot& slot : replica.tensor_slots()) {
    if (!slot.tensor->defined()) continue;
    if (slot.kind == TensorSlot::Kind::parameter) {
      *slot.tensor = handles[originals.index.at(slot.tensor->impl())];
      continue;
    }
    Tensor& buffer = buffers[slot.tensor->impl()];
    if (!buffer.defined()) buffer = slot.tensor->detach().to(device);
    *slot.tensor = buffer;
  }
}

}  // namespace

Tensor ReplicaCache::copy_on(Device device, std::size_t index, const Tensor& original) {
  DeviceCopies* mine = nullptr;
  for (DeviceCopies& known : devices_) {
    if (known.device == device) mine = &known;
  }
  if (mine == nullptr) mine = &devices_.emplace_back(DeviceCopies{device, {}});
  if (mine->copies.size() <= index) mine->copies.resize(index + 1);
  Copy& copy = mine->copies[index];
  bool is_current = copy.original.is_same(original) && copy.source.id() == original.storage().id() &&
                    copy.writes == original.storage()->writes();
  if (!is_current) {
    // A new copy, not new values in the old one: a graph that is still alive may need those.
    copy = {original.storage(), original.storage()->writes(), original, original.detach().to(device)};
  }
  return copy.copy;
}

std::vector<std::shared_ptr<Module>> ReplicaCache::replicate(Module& module, const std::vector<Device>& devices,
                                                             bool detach) {
  std::scoped_lock lock(mutex_);
  Originals originals(module);
  IntrusivePtr<BroadcastBackward> node;
  if (is_grad_enabled() && !detach && !originals.learning.empty()) {
    node = make_node<BroadcastBackward>();
    node->params = originals.learning.size();
    node->home = originals.params[originals.learning[0]].device();
    for (std::size_t i : originals.learning) node->add_edge(originals.params[i]);
  }
  std::vector<std::shared_ptr<Module>> replicas;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    std::vector<Tensor> copies;
    for (std::size_t i = 0; i < originals.params.size(); ++i) {
      bool is_home = originals.params[i].device() == devices[rank];
      copies.push_back(is_home ? originals.params[i] : copy_on(devices[rank], i, originals.params[i]));
    }
    replicas.push_back(module.replicate());
    rebind(*replicas.back(), originals, connected(std::move(copies), originals, node), devices[rank]);
  }
  return replicas;
}

}  // namespace core::detail

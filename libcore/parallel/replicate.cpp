#include "libcore/parallel/replicate.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/parallel/broadcast_nodes.h"
#include "libcore/parallel/comm.h"
#include "libcore/tensor/ops.h"

namespace core::detail {
namespace {

/// What is broadcast of a module: its parameters, and the buffers that want a gradient; each once.
struct Originals {
  std::vector<Tensor> tensors;
  std::unordered_map<const TensorImpl*, std::size_t> index;

  explicit Originals(Module& module) {
    for (const TensorSlot& slot : module.tensor_slots()) {
      if (!slot.tensor->defined()) continue;
      if (slot.kind != TensorSlot::Kind::parameter && !slot.tensor->requires_grad()) continue;
      if (index.emplace(slot.tensor->impl(), tensors.size()).second) tensors.push_back(*slot.tensor);
    }
  }
};

/// Puts the handles in the place of the replica's tensors, and copies its other buffers to the device.
void rebind(Module& replica, const Originals& originals, const std::vector<Tensor>& handles, Device device) {
  std::unordered_map<const TensorImpl*, Tensor> buffers;  // buffers shared inside the module stay shared
  for (const TensorSlot& slot : replica.tensor_slots()) {
    if (!slot.tensor->defined()) continue;
    auto broadcast = originals.index.find(slot.tensor->impl());
    if (broadcast != originals.index.end()) {
      *slot.tensor = handles[broadcast->second];
      continue;
    }
    Tensor& buffer = buffers[slot.tensor->impl()];
    if (!buffer.defined()) buffer = slot.tensor->detach().to(device);
    *slot.tensor = buffer;
  }
}

void check_on_gpu(const Originals& originals, const std::vector<Device>& devices) {
  for (const Tensor& tensor : originals.tensors) {
    if (tensor.device().is_cpu()) {
      throw Error(ErrorCode::assertion, "Broadcast function not implemented for CPU tensors");
    }
    if (!devices.empty() && tensor.device() == devices[0]) continue;
    throw Error(ErrorCode::runtime, "All tensors must be on devices[0]: " +
                                        (devices.empty() ? std::string("none") : std::to_string(devices[0].index())));
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
  bool is_current = copy.copy.defined() && copy.original.is_same(original) &&
                    copy.source.id() == original.storage().id() && copy.writes == original.storage()->writes() &&
                    copy.copy_writes == copy.copy.storage()->writes();
  if (!is_current) {
    // A new copy, not new values in the old one: a graph that is still alive may need those.
    Tensor fresh = copy_to(original.detach(), device);
    copy = {original.storage(), original.storage()->writes(), original, fresh, fresh.storage()->writes()};
  }
  return copy.copy;
}

std::vector<std::shared_ptr<Module>> ReplicaCache::replicate(Module& module, const std::vector<Device>& devices,
                                                             bool detach) {
  std::scoped_lock lock(mutex_);
  Originals originals(module);
  check_on_gpu(originals, devices);
  std::vector<std::vector<Tensor>> copies;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    std::vector<Tensor>& own = copies.emplace_back();
    for (std::size_t i = 0; i < originals.tensors.size(); ++i) {
      own.push_back(rank == 0 ? originals.tensors[i] : copy_on(devices[rank], i, originals.tensors[i]));
    }
  }
  GradModeGuard history(is_grad_enabled() && !detach);
  std::vector<std::vector<Tensor>> handles = connect_copies(originals.tensors, copies);
  std::vector<std::shared_ptr<Module>> replicas;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    replicas.push_back(module.replicate());
    replicas.back()->mark_replica_of(module);
    rebind(*replicas.back(), originals, handles[rank], devices[rank]);
  }
  return replicas;
}

}  // namespace core::detail

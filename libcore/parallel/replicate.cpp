#include "libcore/parallel/replicate.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/parallel/broadcast_nodes.h"
#include "libcore/parallel/comm.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/tensor.h"

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

/// Packed, beside what the devices compute, where these are GPUs; one by one on host memory, where copies are cheap and
/// kernels keep what they make of each.
std::vector<std::vector<Tensor>> copies_of(const std::vector<Tensor>& tensors, const std::vector<Device>& devices) {
  const bool on_host =
      std::any_of(devices.begin(), devices.end(), [](Device device) { return backend_for(device).is_host_memory(); });
  if (!on_host) return broadcast_aside(tensors, devices);
  std::vector<std::vector<Tensor>> copies{tensors};
  for (std::size_t rank = 1; rank < devices.size(); ++rank) {
    std::vector<Tensor>& own = copies.emplace_back();
    for (const Tensor& tensor : tensors) own.push_back(copy_to(tensor, devices[rank]));
  }
  return copies;
}

}  // namespace

bool ReplicaCache::is_current(const Copy& copy, const Tensor& original) {
  return copy.copy.defined() && copy.original.is_same(original) && copy.source.id() == original.storage().id() &&
         packed_weights::may_keep(copy.source.id()) && copy.writes == original.storage()->writes() &&
         copy.copy_writes == copy.copy.storage()->writes();
}

std::vector<ReplicaCache::Copy>& ReplicaCache::copies_on(Device device, std::size_t count) {
  auto known = std::find_if(devices_.begin(), devices_.end(), [&](const auto& one) { return one.device == device; });
  if (known == devices_.end()) known = devices_.insert(devices_.end(), {device, {}});
  if (known->copies.size() < count) known->copies.resize(count);
  return known->copies;
}

/// New copies, not new values in the old ones: a graph that is still alive may need those.
void ReplicaCache::refresh(const std::vector<Tensor>& originals, const std::vector<Device>& devices) {
  std::vector<std::size_t> stale;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const bool all_current = std::all_of(devices.begin() + 1, devices.end(), [&](Device device) {
      return is_current(copies_on(device, originals.size())[i], originals[i]);
    });
    if (!all_current) stale.push_back(i);
  }
  if (stale.empty()) return;
  std::vector<Tensor> sources;
  for (std::size_t i : stale) sources.push_back(originals[i].detach());
  const std::vector<std::vector<Tensor>> fresh = copies_of(sources, devices);
  for (std::size_t rank = 1; rank < devices.size(); ++rank) {
    std::vector<Copy>& known = copies_on(devices[rank], originals.size());
    for (std::size_t at = 0; at < stale.size(); ++at) {
      const Tensor& original = originals[stale[at]];
      const Tensor& copy = fresh[rank][at];
      known[stale[at]] = {original.storage(), original.storage()->writes(), original, copy, copy.storage()->writes()};
    }
  }
}

std::vector<std::shared_ptr<Module>> ReplicaCache::replicate(Module& module, const std::vector<Device>& devices,
                                                             bool detach) {
  std::scoped_lock lock(mutex_);
  Originals originals(module);
  check_on_gpu(originals, devices);
  refresh(originals.tensors, devices);
  std::vector<std::vector<Tensor>> copies{originals.tensors};
  for (std::size_t rank = 1; rank < devices.size(); ++rank) {
    std::vector<Tensor>& own = copies.emplace_back();
    for (std::size_t i = 0; i < originals.tensors.size(); ++i) {
      own.push_back(copies_on(devices[rank], originals.tensors.size())[i].copy);
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

#pragma once
// Replicas of a module on several devices, as torch.nn.parallel.replicate: copies of the struct whose parameters are
// handles on copies of the tensors, connected to the originals for backward. Replica 0 shares the originals' memory,
// buffers included, so that what it writes into them stays; what the others write into theirs, and what any replica
// assigns to its own members, is lost. On GPUs the copies are made beside what these compute, packed into buffers of at
// most 10 MiB, by NCCL where it is there (backend/collectives.h): a replica waits, in the order of streams, for the
// buffer of a parameter when it first uses it, so that its first layers compute while later ones arrive. Replicas list
// their parameters (PyTorch's list none). Thread safety: replicate() locks the cache. Use: auto replicas =
// core::replicate(net, devices);

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "libcore/module/module.h"

namespace core {

namespace detail {

/// Copies of parameters per device, kept until the originals, or the copies, change.
class ReplicaCache {
 public:
  /// One replica a device. Their gradients are summed in device order on the originals' device. `detach`: no history.
  /// Errors: "Broadcast function not implemented for CPU tensors", "All tensors must be on devices[0]: 0".
  std::vector<std::shared_ptr<Module>> replicate(Module& module, const std::vector<Device>& devices, bool detach);

 private:
  struct Copy {
    Storage source;  // kept, so that its address is not reused by another tensor
    std::uint32_t writes = 0;
    Tensor original;
    Tensor copy;
    std::uint32_t copy_writes = 0;  // a replica may have written into its own
  };
  struct DeviceCopies {
    Device device;
    std::vector<Copy> copies;
  };
  static bool is_current(const Copy& copy, const Tensor& original);
  std::vector<Copy>& copies_on(Device device, std::size_t count);
  void refresh(const std::vector<Tensor>& originals, const std::vector<Device>& devices);

  std::mutex mutex_;
  std::vector<DeviceCopies> devices_;
};

}  // namespace detail

/// Replicas that stay connected to `module`; with `detach` they are not.
template <class M>
std::vector<std::shared_ptr<M>> replicate(M& module, const std::vector<Device>& devices, bool detach = false) {
  std::vector<std::shared_ptr<M>> replicas;
  for (auto& replica : detail::ReplicaCache().replicate(module, devices, detach)) {
    replicas.push_back(std::static_pointer_cast<M>(std::move(replica)));
  }
  return replicas;
}

}  // namespace core

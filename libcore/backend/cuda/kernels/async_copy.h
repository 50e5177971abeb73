#pragma once
// Copies from the memory of the device to that of a team which go on while the lanes compute: a lane starts some,
// closes the group, and waits for groups later; after that and Team::sync() all lanes see them. The emulation copies at
// once. Thread safety: for lanes of a team. Use: start_copy(to, from, true); close_copies(); ...; wait_for_copies<0>();
// team.sync();

#include "libcore/backend/cuda/kernels/elements.h"

namespace core::CORE_KERNELS {

/// Starts to copy 16 bytes, or to set them to 0. REQUIRES: both addresses are multiples of 16; `from` is read only
/// where `inside`, but points into an array.
CORE_BODY inline void start_copy(void* to, const void* from, bool inside) {
#ifdef __CUDA_ARCH__
  const auto target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
#else
  *static_cast<Wide*>(to) = inside ? *static_cast<const Wide*>(from) : Wide{};
#endif
}

/// What this lane has started since the last call is a group.
CORE_BODY inline void close_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `kLeft` of this lane's groups, the newest, are under way.
template <int kLeft>
CORE_BODY inline void wait_for_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace core::CORE_KERNELS

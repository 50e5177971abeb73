#pragma once
// Host memory for tensors and their bookkeeping: 64-byte aligned blocks, cached by size so that a small tensor costs
// nanoseconds and a large one does not fault its pages in again.
// Thread safety: all functions; a block may be freed by another thread than the one that allocated it.
// Use: void* p = core::host_allocate(256); core::host_free(p, 256);

#include <cstddef>

namespace core {

inline constexpr std::size_t kAlignment = 64;

/// Error(device) when the machine has no memory left. 0 bytes give a valid block too.
void* host_allocate(std::size_t bytes);
/// `bytes` is what was asked for.
void host_free(void* block, std::size_t bytes) noexcept;
/// Gives cached large blocks back to the system.
void host_trim() noexcept;

}  // namespace core

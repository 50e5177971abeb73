#pragma once
// What frees and collectives take turns at. Thread safety: all of it.
// Use: const std::lock_guard turn(gpu::free_mutex());

#include <mutex>

namespace core::gpu {

/// Held while memory goes back to the driver, which waits for all kernels of its GPU, and while a collective is
/// started, whose kernels wait for those of the other GPUs: a free between two of them would wait for ever.
inline std::mutex& free_mutex() {
  static auto* const mutex = new std::mutex;  // stays: memory is freed while the program ends
  return *mutex;
}

}  // namespace core::gpu

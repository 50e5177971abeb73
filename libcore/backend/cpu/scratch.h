#pragma once
// Scratch: working memory of a kernel, kept by the thread for its next call, so that a training loop does not ask the
// system for pages at every step.
// Thread safety: each thread has its own. Use: float* columns = core::cpu::scratch<float>(core::cpu::Scratch::input,
// n);

#include <cstddef>
#include <cstdint>

namespace core::cpu {

/// One block each; a kernel that needs two at once takes two names.
enum class Scratch { input, output, weight, primitive, count_ };

/// At least `bytes` bytes, 64-byte aligned, uninitialised; valid until the thread's next call with the same name.
void* scratch_bytes(Scratch name, std::size_t bytes);

template <class T>
T* scratch(Scratch name, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(name, static_cast<std::size_t>(count) * sizeof(T)));
}

/// Gives blocks of unusual size back. Call it when a kernel is done.
void trim_scratch();

}  // namespace core::cpu

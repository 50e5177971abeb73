#pragma once
// Copies past the caches: memory that is only to be filled need not be read first, which is a third of what a plain
// copy moves, and what the caches hold stays there. For what nobody reads soon. Thread safety: all functions.
// Use: core::stream_copy(to, from, bytes); core::end_stream_copies();

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace core {

/// Copies `bytes` bytes that do not overlap; a plain copy where the processor has no such stores or `to` does not begin
/// at 16 bytes. Other threads see it after end_stream_copies().
inline void stream_copy(void* to, const void* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__x86_64__)
  constexpr std::size_t kStep = sizeof(__m128i);
  if (reinterpret_cast<std::uintptr_t>(to) % kStep == 0) {
    for (; at + kStep <= bytes; at += kStep) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(from) + at));
      _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<std::byte*>(to) + at), value);
    }
  }
#endif
  std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, bytes - at);
}

/// Others see what this thread copied until here. Once after many copies.
inline void end_stream_copies() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace core

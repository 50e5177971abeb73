#pragma once
// Sixteen floats or integers at once, as GCC vectors: one register with AVX-512, several without. Passed by reference,
// because how they are passed by value depends on the instruction set.
// Thread safety: plain values. Use: Floats x; load(x, p); store(p, x > y ? x : y);

#include <cstdint>
#include <cstring>

namespace core::cpu {

constexpr std::int64_t kLanes = 16;

using Floats [[gnu::vector_size(64)]] = float;
using Ints [[gnu::vector_size(64)]] = std::int32_t;
using Bytes16 [[gnu::vector_size(16)]] = std::uint8_t;

template <class Vector, class T>
[[gnu::always_inline]] inline void load(Vector& to, const T* from) {
  __builtin_memcpy(&to, from, sizeof to);
}
template <class Vector, class T>
[[gnu::always_inline]] inline void store(T* to, const Vector& from) {
  __builtin_memcpy(to, &from, sizeof from);
}

/// The first `count` elements, at most kLanes; the others stay as they are, or become 0.
template <class Vector, class T>
[[gnu::always_inline]] inline void load_some_over(Vector& to, const T* from, std::int64_t count) {
  if (count == kLanes) return load(to, from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}
template <class Vector, class T>
[[gnu::always_inline]] inline void load_up_to(Vector& to, const T* from, std::int64_t count) {
  to = Vector{};
  load_some_over(to, from, count);
}
template <class Vector, class T>
[[gnu::always_inline]] inline void store_up_to(T* to, const Vector& from, std::int64_t count) {
  if (count == kLanes) return store(to, from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace core::cpu

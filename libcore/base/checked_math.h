#pragma once
// Integer arithmetic that says when it overflows. Every size that comes from a file goes through it.
// Thread safety: pure functions. Use: auto bytes = core::try_mul(count, width); if (!bytes) ...

#include <concepts>
#include <cstdint>
#include <optional>

#include "libcore/base/error.h"

namespace core {

template <std::integral T>
constexpr std::optional<T> try_add(T a, T b) {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
constexpr std::optional<T> try_sub(T a, T b) {
  T result{};
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
constexpr std::optional<T> try_mul(T a, T b) {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// a + b, or Error(corrupt) "size overflows 64 bits".
template <std::integral T>
constexpr T checked_add(T a, T b) {
  if (auto result = try_add(a, b)) return *result;
  throw Error(ErrorCode::corrupt, "size overflows 64 bits");
}

/// a * b, or Error(corrupt) "size overflows 64 bits".
template <std::integral T>
constexpr T checked_mul(T a, T b) {
  if (auto result = try_mul(a, b)) return *result;
  throw Error(ErrorCode::corrupt, "size overflows 64 bits");
}

/// `value` rounded up to a multiple of `alignment` (a positive number), overflow-checked.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  std::uint64_t rest = value % alignment;
  return rest == 0 ? value : checked_add(value, alignment - rest);
}

}  // namespace core

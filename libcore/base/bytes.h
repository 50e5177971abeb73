#pragma once
// Raw bytes and fixed-width numbers in them. Files are little-endian everywhere unless a name says otherwise.
// Thread safety: pure functions. Use: core::store_le<std::uint64_t>(out, n);

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace core {

static_assert(std::endian::native == std::endian::little, "this library is written for little-endian machines");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// REQUIRES: at least sizeof(T) bytes at `from`. No alignment needed.
template <class T>
requires std::is_trivially_copyable_v<T> T load_le(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
requires std::is_trivially_copyable_v<T>
void store_le(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
requires std::is_trivially_copyable_v<T>
void append_le(ByteVector& to, T value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), raw, raw + sizeof(T));
}

inline void append(ByteVector& to, Bytes from) {
  to.insert(to.end(), from.begin(), from.end());
}

template <std::unsigned_integral T>
constexpr T byte_swap(T value) {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

}  // namespace core

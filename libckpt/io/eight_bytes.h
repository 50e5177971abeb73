#pragma once
// Questions about eight bytes at once, for texts of which nearly all bytes need nothing done. Internal.
// Thread safety: pure. Use: bool quoted = has_byte(load_eight(text.data()), '"');

#include <cstdint>
#include <cstring>

namespace ckpt {

inline constexpr std::uint64_t kEachByte = 0x0101010101010101;
inline constexpr std::uint64_t kHighBits = 0x80 * kEachByte;

/// REQUIRES: eight bytes at `from`.
inline std::uint64_t load_eight(const char* from) {
  std::uint64_t eight = 0;
  std::memcpy(&eight, from, sizeof eight);
  return eight;
}

/// True when one of the bytes is below `bound`, which is at most 0x80, as far as all are ASCII.
inline bool has_byte_below(std::uint64_t eight, std::uint8_t bound) {
  return ((eight - bound * kEachByte) & ~eight & kHighBits) != 0;
}
inline bool has_byte(std::uint64_t eight, char byte) {
  return has_byte_below(eight ^ (static_cast<std::uint8_t>(byte) * kEachByte), 1);
}
inline bool is_ascii(std::uint64_t eight) {
  return (eight & kHighBits) == 0;
}

}  // namespace ckpt

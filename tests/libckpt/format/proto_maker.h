#pragma once
// Puts protobuf messages together by hand, right or wrong. Thread safety: pure.
// Use: std::string tensor = message({{1, number(3)}, {8, text("w")}});

#include <cstdint>
#include <string>

namespace test {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string proto_number(std::uint32_t field, std::uint64_t value) {
  return varint(std::uint64_t{field} << 3) + varint(value);
}
/// A text, a run of numbers or a message.
inline std::string proto_bytes(std::uint32_t field, const std::string& content) {
  return varint(std::uint64_t{field} << 3 | 2) + varint(content.size()) + content;
}

}  // namespace test

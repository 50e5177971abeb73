#pragma once
// Fields of a protocol buffer, appended to a string. A number of 0 and an empty text are written where they are given.
// Internal to tensorboard and to libckpt/onnx. Thread safety: pure functions.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace core::tensorboard::wire {

inline void varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7f) | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class Word>
void fixed(std::string& out, Word value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

inline void integer(std::string& out, unsigned field, std::int64_t value) {
  varint(out, field << 3);
  varint(out, static_cast<std::uint64_t>(value));
}

inline void real(std::string& out, unsigned field, double value) {
  varint(out, field << 3 | 1);
  fixed(out, std::bit_cast<std::uint64_t>(value));
}

inline void real32(std::string& out, unsigned field, float value) {
  varint(out, field << 3 | 5);
  fixed(out, std::bit_cast<std::uint32_t>(value));
}

/// A text, bytes, or a message that is encoded already.
inline void bytes(std::string& out, unsigned field, std::string_view value) {
  varint(out, field << 3 | 2);
  varint(out, value.size());
  out += value;
}

inline void reals(std::string& out, unsigned field, const std::vector<double>& values) {
  std::string packed;
  packed.reserve(8 * values.size());
  for (const double value : values) fixed(packed, std::bit_cast<std::uint64_t>(value));
  bytes(out, field, packed);
}

}  // namespace core::tensorboard::wire

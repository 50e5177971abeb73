#pragma once
// Numbers and texts of packed tables: LEB128 for counts and lengths, length-prefixed texts.
// Thread safety: pure functions. Use: put_count(out, n); std::uint64_t n = take_count(in);

#include <string>
#include <string_view>

#include "libckpt/io/byte_cursor.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline void put_count(core::ByteVector& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// What a count goes on with behind a first byte that says so.
inline std::uint64_t take_rest_of_count(ByteCursor& in, std::uint8_t first) {
  std::uint64_t value = first & 0x7f;
  for (unsigned shift = 7; shift < 64; shift += 7) {
    auto byte = in.take<std::uint8_t>();
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (shift == 63 && byte > 1) break;
    if (byte < 0x80) return value;
  }
  throw core::Error(core::ErrorCode::corrupt, "a count does not fit 64 bits");
}

/// Nearly all have one byte.
inline std::uint64_t take_count(ByteCursor& in) {
  const auto first = in.take<std::uint8_t>();
  return first < 0x80 ? first : take_rest_of_count(in, first);
}

/// A count of things that take at least one byte each of what is left: allocation stays in proportion to the input.
inline std::uint64_t take_length(ByteCursor& in) {
  std::uint64_t value = take_count(in);
  if (value <= in.remaining()) return value;
  throw core::Error(core::ErrorCode::corrupt, "a table promises " + std::to_string(value) + " items where " +
                                                  std::to_string(in.remaining()) + " bytes are left");
}

inline void put_bytes(core::ByteVector& out, core::Bytes bytes) {
  put_count(out, bytes.size());
  core::append(out, bytes);
}
inline void put_text(core::ByteVector& out, std::string_view text) {
  put_bytes(out, core::as_bytes(text));
}
inline core::Bytes take_run(ByteCursor& in) {
  std::uint64_t length = take_length(in);
  return in.take_bytes(length);
}
inline std::string take_string(ByteCursor& in) {
  return std::string(core::as_text(take_run(in)));
}

}  // namespace ckpt::detail

#pragma once
// PickleCursor: bounded reading of a pickle's fields. Every read is complete or Error(corrupt); protocol 4 frames are
// held to. Thread safety: one user. Use: auto count = cursor.number<std::uint32_t>(); cursor.bytes(count);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/bytes.h"

namespace ckpt {

class PickleCursor {
 public:
  explicit PickleCursor(core::Bytes bytes) : bytes_(bytes) {}

  /// More of the same bytes, in the same place.
  void extend(core::Bytes bytes) { bytes_ = bytes; }

  std::size_t position() const { return position_; }
  bool at_end() const { return position_ == bytes_.size(); }
  std::size_t remaining() const { return bytes_.size() - position_; }

  /// The code of the next opcode. A frame ends between two opcodes.
  std::uint8_t opcode();
  /// The next `length` bytes. Errors: Error(corrupt) when they are not there or cross the end of a frame.
  core::Bytes bytes(std::uint64_t length);
  template <class T>
  T number() {
    return core::load_le<T>(bytes(sizeof(T)).data());
  }
  /// A line without its end.
  std::string_view line();
  /// Starts a frame of `length` bytes: no field may cross its end.
  void open_frame(std::uint64_t length);
  /// True when the frame that was opened last has bytes left.
  bool inside_frame() const { return frame_end_ && *frame_end_ != position_; }

 private:
  core::Bytes bytes_;
  std::size_t position_ = 0;
  std::optional<std::size_t> frame_end_;
};

// Fields of the text protocols. All errors are Error(corrupt).

/// UTF-8, where surrogates in their three-byte form are allowed.
bool is_pickle_utf8(std::string_view text);
/// 'quoted' or "quoted" with backslash escapes, as protocol 0 writes bytes.
std::string parse_quoted(std::string_view line);
/// \uXXXX and \UXXXXXXXX escapes, other bytes are Latin-1, as protocol 0 writes text. The result is UTF-8.
std::string parse_raw_unicode(std::string_view line);
/// "-12" or "12L" of any length (at most 4,300 digits, Python's own limit): two's complement, little-endian.
core::ByteVector parse_decimal(std::string_view digits);
/// Appends a code point as UTF-8; surrogates get their three-byte form.
void append_utf8(std::string& out, std::uint32_t code);
/// Cuts superfluous sign bytes, so that equal numbers have equal bytes. Zero is empty.
void trim_integer(core::ByteVector& twos_complement);
/// The value when it fits 64 bits.
std::optional<std::int64_t> small_integer(core::Bytes twos_complement);

}  // namespace ckpt

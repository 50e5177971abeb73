#pragma once
// MsgpackReader: the tokens of a msgpack file, one after the other, through a window of 64 KiB. Bytes and texts are
// stepped over until they are asked for; every length is compared with the bytes that are there. Thread safety: one
// owner. Use: MsgpackReader in(*file, 0, file->size()); MsgpackToken token = in.next();

#include <cstdint>
#include <string>

#include "libckpt/io/byte_window.h"

namespace ckpt::detail {

struct MsgpackToken {
  enum class Kind : std::uint8_t { nil, boolean, integer, past_64_bits, real, text, bytes, array, map, extension };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;  ///< of integers and booleans; past_64_bits: the bits of an unsigned number
  double real = 0;
  std::uint64_t begin = 0;    ///< of text, bytes and extensions: where the content lies
  std::uint64_t size = 0;     ///< of the content; values of an array, pairs of a map
  std::int8_t extension = 0;  ///< number of its type
};

class MsgpackReader {
 public:
  /// Of the bytes from `begin` to `end`, which lie in the file.
  MsgpackReader(const ByteSource& file, std::uint64_t begin, std::uint64_t end)
      : bytes_(file), position_(begin), end_(end) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return end_ - position_; }
  /// The next token; behind its content. Errors: Error(corrupt) for what is cut off, or begins no value.
  MsgpackToken next();
  /// Of a text. Errors: Error(corrupt) when it is no UTF-8.
  std::string text(const MsgpackToken& token) const;
  /// Of a run of bytes. REQUIRES: the caller has checked token.size.
  core::ByteVector bytes(const MsgpackToken& token) const;

 private:
  std::uint64_t number(unsigned width);
  void content(MsgpackToken& token, MsgpackToken::Kind kind, std::uint64_t size);
  void holds(MsgpackToken& token, MsgpackToken::Kind kind, std::uint64_t count, std::uint64_t least);
  void integer(MsgpackToken& token, std::int64_t value);
  void wide(MsgpackToken& token, unsigned code);
  void extension(MsgpackToken& token, std::uint64_t size);

  ByteWindow bytes_;
  std::uint64_t position_;
  std::uint64_t end_;
};

/// True when the file begins as what flax writes: a dict, or an array alone, in which an array of flax comes before
/// anything that flax does not write. Never throws.
bool looks_like_flax(const ByteSource& file);

}  // namespace ckpt::detail

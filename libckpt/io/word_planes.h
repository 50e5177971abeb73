#pragma once
// Words most of whose bytes are zero or few different ones, such as the differences of two checkpoints, packed so that
// they are unpacked several times as fast as by zstd: byte planes, each left out, stored, in Huffman's codes, or as a
// mask of the bytes that are not zero and those, both in codes. The form is in FORMAT_NATIVE.md ("The codec delta").
// Thread safety: pure functions. Errors: Error(corrupt) for bytes that were not packed so; the packed bytes have a
// checksum. Use: ByteVector packed = pack_words(bytes, 2); unpack_words(packed, 2, out);

#include <cstdint>

#include "libcore/base/bytes.h"

namespace ckpt {

using core::Bytes;
using core::ByteVector;
using core::MutableBytes;

/// Widths of words that are packed, in bytes.
constexpr bool is_word_width(std::uint32_t width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

/// REQUIRES, here and below: is_word_width(width), and the words are a multiple of it.
ByteVector pack_words(Bytes words, std::uint32_t width);
/// The most bytes that words of `size` bytes take when packed.
std::uint64_t packed_words_bound(std::uint64_t size, std::uint32_t width);
void unpack_words(Bytes packed, std::uint32_t width, MutableBytes words);

/// Adds differences to the words there: modulo 2^bits, the lowest bit of a difference is its sign.
void add_words(Bytes differences, std::uint32_t width, MutableBytes to);
/// Bytes from `offset` on, of `size` in all, of words that are packed. REQUIRES: offset is a multiple of the width.
struct PackedPart {
  std::uint32_t width = 1;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};
/// The same with packed differences, each added while it is near the processor. REQUIRES: the part has them all.
void add_packed_words(Bytes packed, const PackedPart& part, MutableBytes to);
/// Puts the differences that lead from `words` to them in the place of the words `from`.
void subtract_words(Bytes words, std::uint32_t width, MutableBytes from);

}  // namespace ckpt

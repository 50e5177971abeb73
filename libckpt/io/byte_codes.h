#pragma once
// Bytes in Huffman's codes, made to be unpacked fast: one look-up gives up to six bytes, and four streams of codes are
// unpacked beside each other. Thread safety: pure functions; a decoder is read only. Errors: Error(corrupt) for codes
// that cannot be. Use: ByteCounts counts{}; counts[7] = 3; const ByteEncoder encoder(code_lengths(counts));

#include <array>
#include <cstdint>
#include <string>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

using core::Bytes;
using core::ByteVector;
using core::MutableBytes;

inline constexpr unsigned kLongestCode = 11;        ///< bits
inline constexpr std::size_t kPastBytes = 64;       ///< behind what is unpacked, room that may be written to
inline constexpr std::size_t kCodeStreams = 4;      ///< that bytes are divided among, in order
inline constexpr std::size_t kMostCoded = 1 << 15;  ///< bytes at once, so that the size of a stream takes two bytes

using ByteCounts = std::array<std::uint32_t, 256>;
using CodeLengths = std::array<std::uint8_t, 256>;  ///< bits of each byte's code, 0 for bytes that do not occur

/// Error(corrupt), also of whoever keeps codes among other things.
[[noreturn]] void damaged_words(const std::string& what);

/// The best codes of at most kLongestCode bits, or nearly so. REQUIRES: something is counted.
CodeLengths code_lengths(const ByteCounts& counts);
/// Bits that bytes so often would take.
std::uint64_t coded_bits(const ByteCounts& counts, const CodeLengths& lengths);

/// Each byte's code follows on the one before, in the order of their lengths, then of the bytes.
std::array<std::uint16_t, 256> codes_of(const CodeLengths& lengths);
/// Error(corrupt) when a code is too long, or there are more than that many bits can tell apart.
void check_lengths(const CodeLengths& lengths);

/// The last byte that has a code, then four bits for every byte up to it, the lower half first.
void append_lengths(ByteVector& out, const CodeLengths& lengths);
/// Takes them off the front of `in`.
CodeLengths take_lengths(Bytes& in);

class ByteEncoder {
 public:
  explicit ByteEncoder(const CodeLengths& lengths);
  /// The sizes of the four streams (2 bytes each) and the streams. REQUIRES: at most kMostCoded bytes, all with codes.
  void append(ByteVector& out, Bytes bytes) const;

 private:
  /// How many bytes their codes take; eight more may be written to.
  std::size_t put_codes(Bytes bytes, std::byte* out) const;

  CodeLengths lengths_;
  std::array<std::uint16_t, 256> codes_ = {};
};

class ByteDecoder {
 public:
  ByteDecoder() = default;
  /// Errors: Error(corrupt) when there are more codes than that many bits can tell apart.
  explicit ByteDecoder(const CodeLengths& lengths);
  /// Takes what append() wrote off the front of `in`. REQUIRES: kPastBytes behind `out` may be written to; at most
  /// kMostCoded bytes.
  void take(Bytes& in, MutableBytes out) const;

 private:
  std::array<std::uint64_t, 1 << kLongestCode> table_;  ///< see byte_codes.cpp
};

}  // namespace ckpt::detail

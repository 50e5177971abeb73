#pragma once
// What is done to the bytes of unpacked planes (word_planes.h), by the instructions of this processor. Internal to
// libckpt/io. Never throws. Thread safety: pure functions. Use: std::size_t there = word_kernels().ones(bytes);

#include <cstddef>
#include <cstdint>

#include "libckpt/io/byte_codes.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline constexpr std::size_t kBytesOfMask = 8;  ///< that one byte of a mask is for

/// A difference as a number modulo 2^bits. Its lowest bit is the sign, so that small ones of either sign have few bits.
template <class Word>
Word number_of(Word difference) {
  return static_cast<Word>(difference >> 1 ^ static_cast<Word>(Word{0} - static_cast<Word>(difference & 1)));
}

/// Calls `body` with a word of that many bytes.
template <class Body>
void of_width(std::uint32_t width, const Body& body) {
  if (width == 1) body(std::uint8_t{});
  if (width == 2) body(std::uint16_t{});
  if (width == 4) body(std::uint32_t{});
  if (width == 8) body(std::uint64_t{});
}

/// One plane of a block as it was unpacked: all its bytes, or masks and those that are not zero, kPastBytes behind
/// which are there; without bytes, zeros.
struct SpreadPlane {
  const std::byte* masks = nullptr;
  const std::byte* bytes = nullptr;
};
inline constexpr std::size_t kSpread = 64;  ///< words that are made of planes together

/// What is done to many bytes, by the instructions of this processor.
struct WordKernels {
  std::size_t (*ones)(Bytes masks);
  /// Puts zeros back. `masks` is followed by eight zeros, kPastBytes behind `values` are there, and as many behind
  /// `out` may be written to.
  void (*put_zeros_in)(const std::byte* masks, const std::byte* values, std::byte* out, std::size_t count);
  /// Adds the differences in planes of `count` bytes to words of two bytes, and of four.
  void (*add_2)(const std::byte* planes, std::byte* to, std::size_t count);
  void (*add_4)(const std::byte* planes, std::byte* to, std::size_t count);
  /// add_2() where zeros are not back yet, for whole kSpread words; null where the processor spreads no bytes.
  void (*add_2_spread)(const SpreadPlane* planes, std::byte* to, std::size_t count);
};

const WordKernels& word_kernels();
/// add_2() for words of any width.
void add_planes(std::uint32_t width, const std::byte* planes, std::byte* to, std::size_t count);

}  // namespace ckpt::detail

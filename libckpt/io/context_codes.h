#pragma once
// Bytes each of which is in the Huffman codes of its context, which whoever unpacks them knows before: 64 streams of
// codes side by side, stream q of bytes q, q + 64, ... Thread safety: a coder is read only; a writer and streams belong
// to one thread. Errors: Error(corrupt) for codes that cannot be. Use: std::vector<CodeLengths> lengths(1); const
// ContextEncoder encoder(lengths, 0);

#include <array>
#include <cstdint>
#include <vector>

#include "libckpt/io/byte_codes.h"
#include "libckpt/io/scratch.h"

namespace ckpt::detail {

inline constexpr std::size_t kMostContexts = 16;
inline constexpr std::size_t kContextStreams = 64;
inline constexpr std::size_t kMostInContexts = kContextStreams * 2048;  ///< bytes at once: two bytes tell their streams
inline constexpr unsigned kContextAt = kLongestCode;  ///< context c is given as c << kContextAt, its place in tables
inline constexpr std::size_t kBehindCodes = 8;        ///< bytes behind a stream that may be read
inline constexpr std::size_t kContextHead = 2 * kContextStreams;

/// Codes of bytes by their contexts.
class ContextEncoder {
 public:
  /// `stand_in` takes the place of bytes that have no code in their contexts, and has one in every context.
  ContextEncoder(const std::vector<CodeLengths>& contexts, std::uint8_t stand_in);

 private:
  friend class ContextWriter;
  /// By context and byte: the code, and in the four bits on top its length.
  std::vector<std::uint16_t> codes_;
  std::uint8_t stand_in_;
};

/// Where each of the streams that are packed goes on: bits from the top, of which whole bytes are written at once.
struct OpenStreams {
  std::array<std::byte*, kContextStreams> at;
  std::array<std::uint64_t, kContextStreams> bits;
  std::array<std::uint64_t, kContextStreams> filled;
};

/// Streams while they are packed.
class ContextWriter {
 public:
  explicit ContextWriter(const ContextEncoder& encoder);
  /// Replaces bytes without a code in their contexts, and says whether there were any. REQUIRES: a multiple of
  /// kContextStreams, kMostInContexts in all.
  bool put(MutableBytes bytes, const std::uint16_t* places);
  /// Ends the streams and appends their sizes (2 bytes each) and them to `out`. The next ones begin.
  void finish(ByteVector& out);

 private:
  void begin();

  const ContextEncoder& encoder_;
  Scratch room_;
  OpenStreams streams_;
};

/// Streams while they are unpacked: where each goes on, and how many bits of that byte are used.
struct ContextStreams {
  std::array<const std::byte*, kContextStreams> in;
  std::array<std::uint64_t, kContextStreams> used;
  const std::byte* end;
};

class ContextDecoder {
 public:
  /// REQUIRES: one context at least, at most kMostContexts.
  explicit ContextDecoder(const std::vector<CodeLengths>& contexts);
  /// Takes what finish() wrote off the front of `in`. REQUIRES: kBehindCodes behind `in`, as long as they are used.
  static ContextStreams open(Bytes& in);
  /// The next bytes. REQUIRES: places of contexts that there are; a multiple of kContextStreams.
  void take(ContextStreams& streams, const std::uint16_t* places, MutableBytes out) const;

 private:
  std::vector<std::uint16_t> table_;  ///< of each context: a byte, and below it the length of its code; and one more
};

}  // namespace ckpt::detail

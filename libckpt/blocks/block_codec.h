#pragma once
// The quantised blocks of GGUF, one row a type: how many values a block holds, and how it is unpacked to f32 and
// packed. Every value has the bits that the reference of the format, gguf-py, computes; where it has no function (to
// unpack Q1_0, Q2_0, Q8_1, Q8_K, to pack Q2_K to Q6_K) those of ggml. Source: ggml's structures of the same names,
// little-endian. Thread safety: constants. Use: const BlockCodec* codec = find_block_codec("Q4_0");

#include <cstdint>
#include <span>
#include <string_view>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

struct BlockCodec {
  std::string_view name;   ///< "Q4_0"
  std::uint32_t elements;  ///< values of a block
  std::uint32_t bytes;     ///< of a block
  /// One block: `bytes` bytes to `elements` values.
  void (*unpack)(const std::byte* block, float* values);
  /// The way back, rounded as the reference does it; null where it has none.
  void (*pack)(const float* values, std::byte* block);
};

/// Null for a name that is no block type, or one that cannot be unpacked.
const BlockCodec* find_block_codec(std::string_view name);
/// All of them, in the order of ggml's numbers.
std::span<const BlockCodec> block_codecs();

}  // namespace ckpt::detail

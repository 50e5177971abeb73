#pragma once
// Sources that compute the f32 values of a quantised layer from its parts, a few rows at a time. Internal to transform.
// Thread safety: as ByteSource. Use: SourcePtr values = column_packed_values({.in = 64, .out = 8, .weight = packed,
// .scales = scales});

#include <cstdint>

#include "libckpt/entry.h"

namespace ckpt::detail {

/// Numbers of `bits` bits in words of 32, one behind the other.
struct PackedNumbers {
  SourcePtr bytes = {};
  std::int64_t rows = 0;   ///< of words
  std::int64_t words = 0;  ///< in a row
};

/// GPTQ and AWQ: the weight is stored [in, out], packed along `in` or along `out`.
struct ColumnPacked {
  bool awq = false;
  int bits = 4;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t groups = 1;
  PackedNumbers weight = {};  ///< GPTQ [in * bits / 32, out]; AWQ [in, out * bits / 32]
  PackedNumbers zeros = {};   ///< [groups, out * bits / 32]
  EntryPtr scales = {};       ///< [groups, out]
  EntryPtr index = {};        ///< the group of each input, or null: in / groups of them each
  int zero_shift = 0;         ///< added to stored zero points, which wrap: 15 and 1 of 4 bits are 0
};
SourcePtr column_packed_values(ColumnPacked layer);

/// Where the scale of an element lies.
struct ScaleGrid {
  EntryPtr scales = {};      ///< one, [out, 1], [out, groups] or one a block
  std::int64_t columns = 1;  ///< of `scales`
  std::int64_t row_block = 1, column_block = 1;
  bool exponents = false;  ///< bytes that are powers of two, biased by 127
  EntryPtr divisor = {};   ///< of all scales, or null
};

/// compressed-tensors: rows of the weight are stored one behind the other.
struct RowPacked {
  enum class Kind : std::uint8_t { words, fp4, plain };
  Kind kind = Kind::plain;
  int bits = 4;  ///< of words
  std::int64_t in = 0;
  std::int64_t out = 0;
  EntryPtr weight = {};
  ScaleGrid scale = {};
  EntryPtr zeros = {};  ///< of plain weights as the scales; of words packed along rows [out * bits / 32, groups]
  EntryPtr index = {};  ///< the group of each input, or null
};
SourcePtr row_packed_values(RowPacked layer);

}  // namespace ckpt::detail

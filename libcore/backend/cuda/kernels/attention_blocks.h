#pragma once
// What attention of halves and its gradient share: rows of a head brought into shared memory as they are, 16 bytes at a
// time where rows allow, and products of such tiles on tensor cores. A team of kTileLanes lanes works on up to 64 rows;
// tiles get smaller where rows get wider, until all fits into what a team can share. Thread safety: plain values. For
// attention_half.cu and attention_half_grad.cu alone.

#include <initializer_list>
#include <limits>

#include "libcore/backend/cuda/kernels/async_copy.h"
#include "libcore/backend/cuda/kernels/attention_tiles.h"

namespace core::CORE_KERNELS {

inline constexpr int kHalfPack = 8;  // elements of 16 bytes

/// Sizes of the tiles, and where rows begin: in different banks, at multiples of 16 bytes.
struct BlockTiles {
  AttentionSizes s;
  int width;  ///< of a row, in whole blocks
  int tile;   ///< rows of queries and of keys that are taken together
  int pitch, score_pitch, weight_pitch;
  bool packs;  ///< rows are read and written as packs of kPackSize<T> elements
  SizeDivider per_row, packs_per_row, query_tiles, key_tiles;

  BlockTiles(const AttentionSizes& sizes, int rows)
      : s(sizes),
        width(static_cast<int>(divide_up(s.width, kBlock)) * kBlock),
        tile(rows),
        pitch(width + 8),
        score_pitch(tile + 4),
        weight_pitch(tile + 8),
        packs(false),
        per_row(width),
        packs_per_row(width / kHalfPack),
        query_tiles(divide_up(s.queries, tile)),
        key_tiles(divide_up(s.keys, tile)) {}

  CORE_HD int rows_bytes() const { return tile * pitch * 2; }
  CORE_HD int scores_bytes() const { return tile * score_pitch * 4; }
  CORE_HD int weights_bytes() const { return tile * weight_pitch * 2; }
  /// Of the results, where rows of floats lie.
  CORE_HD int out_pitch() const { return width + 4; }
  CORE_HD int across() const { return width / kBlock; }
  CORE_HD int down() const { return tile / kBlock; }
  CORE_BODY bool sees(std::int64_t query, std::int64_t key) const {
    return query < s.queries && key < s.keys && (!s.causal || key <= query);
  }
  /// Keys that the queries before `end` see.
  CORE_BODY std::int64_t keys_before(std::int64_t end) const { return s.causal ? smaller(s.keys, end) : s.keys; }
  std::int64_t heads() const { return s.batch * s.heads; }
  /// Blocks of results that a warp of a full team has.
  int blocks_each() const { return static_cast<int>(divide_up(across() * down(), kTileLanes / 32)); }
};

inline bool has_packs(const AttentionArray& array, std::int64_t width) {
  const bool even = (array.batch_stride | array.head_stride | array.row_stride | width) % kHalfPack == 0;
  return even && is_aligned(array.data, sizeof(Wide));
}

/// The largest tiles whose memory a team can share, and of whose results a warp can hold its part. `arrays`: all that
/// are read or written.
template <class Memory>
BlockTiles block_tiles(const AttentionSizes& s, int most_blocks, std::initializer_list<AttentionArray> arrays) {
  int rows = 64;
  const auto fits = [&] {
    const BlockTiles t(s, rows);
    return t.blocks_each() <= most_blocks && static_cast<std::int64_t>(Memory::bytes(t)) <= most_shared_bytes();
  };
  while (rows > kBlock && !fits()) rows /= 2;
  BlockTiles tiles(s, rows);
  tiles.packs = true;
  for (const AttentionArray& array : arrays) tiles.packs = tiles.packs && has_packs(array, s.width);
  return tiles;
}

/// Starts to bring rows [first, first + tile) to shared memory, zeros where there are none: a group of copies.
template <class T>
CORE_BODY void start_rows(const Team& team, const BlockTiles& t, const HeadRows<const T>& from, std::int64_t first,
                          std::int64_t count, T* to) {
  for (int i = team.lane(); t.packs && i < t.tile * t.width / kHalfPack; i += team.size()) {
    const auto at = t.packs_per_row.divide(i);
    const std::int64_t row = first + at.quotient, column = at.remainder * kHalfPack;
    const bool inside = row < count && column < t.s.width;
    start_copy(to + at.quotient * t.pitch + column, inside ? from.row(row) + column : from.row(0), inside);
  }
  for (int i = team.lane(); !t.packs && i < t.tile * t.width; i += team.size()) {
    const auto at = t.per_row.divide(i);
    const std::int64_t row = first + at.quotient;
    const bool inside = row < count && at.remainder < t.s.width;
    to[at.quotient * t.pitch + at.remainder] = inside ? from.row(row)[at.remainder] : T{};
  }
  close_copies();
}

/// scores = rows of a . rows of b, of all pairs.
template <class T>
CORE_BODY void multiply_rows(const Team& team, const BlockTiles& t, const T* a, const T* b, float* scores) {
  SharedBlocks<2> blocks(team, t.down(), t.down());
  multiply_blocks<Lying::straight, Lying::turned>(blocks, a, t.pitch, b, t.pitch, t.width);
  store_blocks(blocks, scores, t.score_pitch);
}

/// Results as a team holds them, to rows of a head, through shared memory: tile * out_pitch() floats at `room`.
template <class T, int kEach>
CORE_BODY void store_rows(const Team& team, const BlockTiles& t, SharedBlocks<kEach>& sums, float* room,
                          std::int64_t first, std::int64_t count, const HeadRows<T>& to) {
  team.sync();
  store_blocks(sums, room, t.out_pitch());
  team.sync();
  for (int i = team.lane(); t.packs && i < t.tile * t.width / kHalfPack; i += team.size()) {
    const auto at = t.packs_per_row.divide(i);
    const std::int64_t row = first + at.quotient, column = at.remainder * kHalfPack;
    if (row >= count || column >= t.s.width) continue;
    store_pack<kHalfPack>(room + at.quotient * t.out_pitch() + column, to.row(row) + column);
  }
  for (int i = team.lane(); !t.packs && i < t.tile * t.width; i += team.size()) {
    const auto at = t.per_row.divide(i);
    const std::int64_t row = first + at.quotient;
    if (row >= count || at.remainder >= t.s.width) continue;
    to.row(row)[at.remainder] = narrow<T>(room[at.quotient * t.out_pitch() + at.remainder]);
  }
}

}  // namespace core::CORE_KERNELS

#pragma once
// What attention and its gradient share: rows of a head brought into shared memory, and products of such tiles whose
// sums stay with the lanes. A team of kTileLanes lanes works on up to 64 rows; tiles get smaller where rows get wider,
// so that a lane never has more than two blocks of 4 x 4 sums. Thread safety: plain values. For attention.cu and
// attention_grad.cu alone.

#include <limits>

#include "libcore/backend/cuda/kernels/tile_product.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {

/// Sums of the results that a lane has: kBlocks blocks of 4 x 4, or all where a team has fewer lanes than it should.
template <int kBlocks>
struct OutSums {
  static constexpr int kCount = kBlocks * kTileBlocks;
  Four<float> blocks[kCount][4] = {};
};

/// Sizes of the tiles. Rows begin in different banks: their pitch is 4 words more than they are wide.
struct AttentionTiles {
  AttentionSizes s;
  int width;  ///< of a row, in whole Fours
  int tile;   ///< rows of queries and of keys that are taken together
  int pitch, score_pitch;
  SizeDivider per_row, fours, query_tiles, key_tiles;

  /// `bytes`: what a team has to share for tiles of a size.
  AttentionTiles(const AttentionSizes& sizes, std::size_t (*bytes)(const AttentionTiles&))
      : s(sizes), width(static_cast<int>(divide_up(s.width, 4) * 4)), tile(64) {
    pitch = width + 4;
    const auto most = static_cast<std::size_t>(most_shared_bytes());
    for (score_pitch = tile + 4; tile > 4 && (tile * width > kTileLanes * 2 * 16 || bytes(*this) > most);) {
      tile /= 2;
      score_pitch = tile + 4;
    }
    per_row = SizeDivider(width);
    fours = SizeDivider(width / 4);
    query_tiles = SizeDivider(divide_up(s.queries, tile));
    key_tiles = SizeDivider(divide_up(s.keys, tile));
  }
  int rows_floats() const { return tile * pitch; }
  int scores_floats() const { return tile * score_pitch; }
  /// Blocks of results that a lane of a full team has at most.
  int blocks_each() const { return tile * width > kTileLanes * 16 ? 2 : 1; }
  CORE_BODY int score_blocks() const { return tile * tile / 16; }
  CORE_BODY int out_blocks() const { return tile * width / 16; }
  CORE_BODY bool sees(std::int64_t query, std::int64_t key) const {
    return query < s.queries && key < s.keys && (!s.causal || key <= query);
  }
  /// Keys that the queries before `end` see.
  CORE_BODY std::int64_t keys_before(std::int64_t end) const { return s.causal ? smaller(s.keys, end) : s.keys; }
};

/// One head's rows.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;
  CORE_BODY T* row(std::int64_t i) const { return data + i * stride; }
};
template <class T>
CORE_BODY HeadRows<T> rows_of(const AttentionArray& array, const AttentionSizes& s, std::int64_t head) {
  T* data = static_cast<T*>(const_cast<void*>(array.data));
  return {data + head / s.heads * array.batch_stride + head % s.heads * array.head_stride, array.row_stride};
}

/// Rows [first, first + tile) to shared memory, zeros where there are none.
template <class T>
CORE_BODY void load_rows(const Team& team, const AttentionTiles& t, const HeadRows<T>& from, std::int64_t first,
                         std::int64_t count, float* to) {
  for (int i = team.lane(); i < t.tile * t.width; i += team.size()) {
    const auto at = t.per_row.divide(i);
    const std::int64_t row = first + at.quotient;
    const bool inside = row < count && at.remainder < t.s.width;
    to[at.quotient * t.pitch + at.remainder] = inside ? widen(from.row(row)[at.remainder]) : 0.0F;
  }
}

/// Where a lane's block of 4 x 4 scores is: rows row ... row + 3, columns column, column + step ... (which lie in
/// different banks).
struct ScoreBlock {
  int row, column, step;
  CORE_BODY ScoreBlock(const AttentionTiles& t, int i) : step(t.tile / 4) {
    row = i / step * 4;
    column = i % step;
  }
};

/// sums[y][x] = rows of a . rows of b.
CORE_BODY inline void multiply_rows(const AttentionTiles& t, const ScoreBlock& at, const float* a, const float* b,
                                    Four<float>* sums) {
  for (int d = 0; d < t.width; d += 4) {
    Four<float> left[4], right[4];
    CORE_UNROLL
    for (int k = 0; k < 4; ++k) {
      left[k] = *reinterpret_cast<const Four<float>*>(a + (at.row + k) * t.pitch + d);
      right[k] = *reinterpret_cast<const Four<float>*>(b + (at.column + k * at.step) * t.pitch + d);
    }
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      CORE_UNROLL
      for (int x = 0; x < 4; ++x) {
        CORE_UNROLL
        for (int k = 0; k < 4; ++k) sums[y].values[x] += left[y].values[k] * right[x].values[k];
      }
    }
  }
}

/// Where a lane's block of 4 x 4 results is: rows row ... row + 3, elements element ... element + 3.
struct OutBlock {
  int row, element;
  CORE_BODY OutBlock(const AttentionTiles& t, int i) {
    const auto at = t.fours.divide(i);
    row = static_cast<int>(at.quotient) * 4;
    element = static_cast<int>(at.remainder) * 4;
  }
};

/// sums += scores (rows of the block) * rows.
CORE_BODY inline void multiply_scores(const AttentionTiles& t, const OutBlock& at, const float* scores,
                                      const float* rows, Four<float>* sums) {
  for (int j = 0; j < t.tile; j += 4) {
    Four<float> left[4];
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      left[y] = *reinterpret_cast<const Four<float>*>(scores + (at.row + y) * t.score_pitch + j);
    }
    CORE_UNROLL
    for (int k = 0; k < 4; ++k) {
      const auto right = *reinterpret_cast<const Four<float>*>(rows + (j + k) * t.pitch + at.element);
      CORE_UNROLL
      for (int y = 0; y < 4; ++y) {
        CORE_UNROLL
        for (int x = 0; x < 4; ++x) sums[y].values[x] += left[y].values[k] * right.values[x];
      }
    }
  }
}

/// sums += scores^T (its columns are the rows of the block) * rows.
CORE_BODY inline void multiply_turned(const AttentionTiles& t, const OutBlock& at, const float* scores,
                                      const float* rows, Four<float>* sums) {
  for (int i = 0; i < t.tile; ++i) {
    const auto left = *reinterpret_cast<const Four<float>*>(scores + i * t.score_pitch + at.row);
    const auto right = *reinterpret_cast<const Four<float>*>(rows + i * t.pitch + at.element);
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      CORE_UNROLL
      for (int x = 0; x < 4; ++x) sums[y].values[x] += left.values[y] * right.values[x];
    }
  }
}

/// visit(block, its sums) for the lane's blocks of results.
template <int kBlocks, class Visit>
CORE_BODY void for_out_blocks(const Team& team, const AttentionTiles& t, OutSums<kBlocks>& sums, Visit visit) {
  CORE_UNROLL
  for (int block = 0; block < sums.kCount; ++block) {
    const int i = team.lane() + block * team.size();
    if (i < t.out_blocks()) visit(OutBlock(t, i), sums.blocks[block]);
  }
}

/// Writes a block of results to rows of a head, those that are there.
template <class T>
CORE_BODY void store_block(const AttentionTiles& t, const OutBlock& at, const Four<float>* sums, std::int64_t first,
                           std::int64_t count, const HeadRows<T>& to) {
  CORE_UNROLL
  for (int y = 0; y < 4; ++y) {
    CORE_UNROLL
    for (int x = 0; x < 4; ++x) {
      const std::int64_t row = first + at.row + y;
      if (row < count && at.element + x < t.s.width) to.row(row)[at.element + x] = narrow<T>(sums[y].values[x]);
    }
  }
}

/// What the gradients of scores have in common, for each query of a tile: the gradient of its output times the output,
/// which lies where the values will, in m.along and along(heads, queries); and the sum of its weights in m.log_sum.
template <class Tiles, class Memory>
CORE_BODY void find_along(const Team& team, const Tiles& t, const Memory& m, const AttentionGradParams& p, float* along,
                          std::int64_t head, std::int64_t query) {
  const auto* log_sums = static_cast<const float*>(p.log_sums) + head * t.s.queries;
  for (int row = team.lane(); row < t.tile; row += team.size()) {
    float sum = 0;
    for (int d = 0; d < t.width; ++d) sum += widen(m.output_grad[row * t.pitch + d]) * widen(m.v[row * t.pitch + d]);
    const bool inside = query + row < t.s.queries;
    m.along[row] = sum;
    m.log_sum[row] = inside ? log_sums[query + row] : 0.0F;
    if (inside) along[head * t.s.queries + query + row] = sum;
  }
}

}  // namespace core::CORE_KERNELS

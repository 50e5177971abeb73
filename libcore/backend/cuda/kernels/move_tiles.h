#pragma once
// Transposes: an output that runs along one dimension from an input that runs along another. Tiles go through shared
// memory, so that both sides are read and written side by side. Thread safety: plain values.
// Use: for_each_row(planes * tiles * other_tiles, 256, MoveTiles<Word>::kBytes, MoveTiles<Word>{...});

#include "libcore/backend/cuda/kernels/elements.h"

namespace core::CORE_KERNELS {

/// `out` runs along dimension 0 where `in` runs along another. The rows of a tile in shared memory are one longer than
/// the tile, so that its columns lie in different banks.
template <class Word>
struct MoveTiles {
  static constexpr int kTile = 32, kRow = kTile + 1;
  static constexpr std::size_t kBytes = sizeof(Word) * kTile * kRow;
  Word* out;
  const Word* in;
  std::int64_t size, other_size;   // of dimension 0 and of the dimension that in runs along
  std::int64_t in_step, out_step;  // of in along dimension 0, of out along the other
  std::int64_t tiles, other_tiles;
  Indexer<2> rest;

  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    Word* tile = team.shared<Word>();
    const std::int64_t outer = row / tiles, first = (row - outer * tiles) * kTile;
    const std::int64_t plane = outer / other_tiles, other_first = (outer - plane * other_tiles) * kTile;
    const auto at = rest(plane);
    for (int k = team.lane(); k < kTile * kTile; k += team.size()) {
      const std::int64_t i = first + k / kTile, j = other_first + k % kTile;
      if (i < size && j < other_size) tile[k / kTile * kRow + k % kTile] = in[at[1] + i * in_step + j];
    }
    team.sync();
    for (int k = team.lane(); k < kTile * kTile; k += team.size()) {
      const std::int64_t i = first + k % kTile, j = other_first + k / kTile;
      if (i < size && j < other_size) out[at[0] + i + j * out_step] = tile[k % kTile * kRow + k / kTile];
    }
  }
};

/// out (batch, columns, rows) = in (batch, rows, columns).
template <class Word>
void transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns, const Word* in, Word* out) {
  using Tiles = MoveTiles<Word>;
  const std::int64_t tiles = divide_up(rows, Tiles::kTile), others = divide_up(columns, Tiles::kTile);
  Loop<2> images{1, batch, {batch}, {}};
  for (auto& strides : images.strides) strides[0] = rows * columns;
  for_each_row(batch * tiles * others, 256, Tiles::kBytes,
               Tiles{out, in, rows, columns, columns, rows, tiles, others, Indexer<2>(images)});
}

}  // namespace core::CORE_KERNELS

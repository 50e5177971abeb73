#pragma once
// Sums of elements that many indices bring to one place, in the order of the elements (index_add, the gradient of an
// embedding into few rows). One lane that goes through a long run waits for the memory at every step; here a team
// brings tiles of the run into shared memory while a few of its lanes add up the tile before, so that the order and
// with it every bit stay those of the CPU. Thread safety: plain values. For indexing.cu alone: add_long_runs(sums,
// ...).

#include <cstdint>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/nn_elements.h"

namespace core::CORE_KERNELS {

/// Runs of at least so many equal keys go to teams.
inline constexpr std::int64_t kLongRun = 64;

/// Whether the run that begins at `j` of sorted keys is long.
template <class Key>
CORE_BODY bool is_long_run(const Key* keys, std::int64_t j, std::int64_t count) {
  return j + kLongRun <= count && keys[j + kLongRun - 1] == keys[j];
}

/// Places [begin, end) that share a key; begin < 0: none.
struct KeyRun {
  std::int64_t begin, end;
};

/// runs[slot]: the long run that begins in places [slot * kLongRun, (slot + 1) * kLongRun) of the sorted keys. At most
/// one does: the next begins kLongRun places later at least.
template <class Key>
struct FindLongRuns {
  const Key* keys;
  KeyRun* runs;
  std::int64_t count;
  Key nowhere;

  CORE_BODY void operator()(std::int64_t slot) const {
    KeyRun found{-1, -1};
    const std::int64_t last = smaller(count, (slot + 1) * kLongRun);
    CORE_NO_UNROLL
    for (std::int64_t j = slot * kLongRun; j < last && found.begin < 0; ++j) {
      const bool begins = keys[j] != nowhere && (j == 0 || keys[j - 1] != keys[j]);
      if (begins && is_long_run(keys, j, count)) found = {j, end_of_run(j)};
    }
    runs[slot] = found;
  }

 private:
  CORE_BODY std::int64_t end_of_run(std::int64_t begin) const {
    std::int64_t low = begin + kLongRun - 1, high = count;  // keys[low] is of the run, `high` is behind it
    CORE_NO_UNROLL
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (keys[middle] == keys[begin] ? low : high) = middle;
    }
    return high;
  }
};

/// Adds the elements of one run to one block of the columns of its place. `Source`: see add_long_runs().
template <class T, class Key, class Source>
struct AddLongRun {
  using W = Computed<T>;
  static constexpr int kTile = 4096;  // elements that are brought at once
  static constexpr int kMostColumns = 16;
  static constexpr int kTogether = 8;  // loads of a lane that are on their way at once

  Source source;
  const KeyRun* runs;
  std::int64_t columns;       // elements of a place
  int block;                  // columns of a team: a power of two
  SizeDivider column_blocks;  // of a run

  static int block_for(std::int64_t columns) {
    int block = 1;
    while (block < kMostColumns && block < columns) block *= 2;
    return block;
  }
  static std::size_t shared_bytes() { return 2 * kTile * sizeof(W); }

  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    const auto at = column_blocks.divide(row);
    const KeyRun run = runs[at.quotient];
    if (run.begin < 0) return;
    const std::int64_t first_column = at.remainder * block;
    const int deep = kTile / block;  // places of a tile
    W* tiles = team.shared<W>();
    load(team.lane(), team.size(), run.begin, run.end, first_column, tiles);
    const int adders = team.size() > kMostColumns * 2 ? kMostColumns * 2 : 0;
    W sums[kMostColumns];
    start(team, run.begin, first_column, sums);
    int now = 0;
    for (std::int64_t j = run.begin; j < run.end; j += deep) {
      team.sync();
      // Lanes of the first warp add up this tile while the others bring the next one.
      if (j + deep < run.end && team.lane() >= adders) {
        load(team.lane() - adders, team.size() - adders, j + deep, run.end, first_column, tiles + (1 - now) * kTile);
      }
      add(team, tiles + now * kTile, smaller<std::int64_t>(deep, run.end - j), sums);
      now = 1 - now;
    }
    finish(team, run.begin, first_column, sums);
  }

 private:
  CORE_BODY void load(int lane, int lanes, std::int64_t begin, std::int64_t end, std::int64_t first_column,
                      W* tile) const {
    const std::int64_t count = smaller<std::int64_t>(kTile, (end - begin) * block);
    for (std::int64_t first = lane; first < count; first += std::int64_t{kTogether} * lanes) {
      W values[kTogether];
      CORE_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t i = first + std::int64_t{k} * lanes;
        const std::int64_t column = first_column + i % block;
        values[k] = i < count && column < columns ? source.element(begin + i / block, column) : W(0);
      }
      CORE_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t i = first + std::int64_t{k} * lanes;
        if (i < count) tile[i] = values[k];
      }
    }
  }

  /// visit(column of the block, its sum) for the columns of this lane.
  template <class Visit>
  CORE_BODY void for_columns(const Team& team, W* sums, const Visit& visit) const {
    const int step = smaller(team.size(), block);
    CORE_UNROLL
    for (int k = 0; k < kMostColumns; ++k) {
      const int column = team.lane() + k * step;
      if (team.lane() < step && column < block) visit(column, sums[k]);
    }
  }
  CORE_BODY void start(const Team& team, std::int64_t place, std::int64_t first_column, W* sums) const {
    for_columns(team, sums, [&](int column, W& sum) {
      sum = first_column + column < columns ? source.target(place, first_column + column) : W(0);
    });
  }
  CORE_BODY void add(const Team& team, const W* tile, std::int64_t places, W* sums) const {
    for_columns(team, sums, [&](int column, W& sum) {
      for (std::int64_t j = 0; j < places; ++j) sum = static_cast<W>(sum + tile[j * block + column]);
    });
  }
  CORE_BODY void finish(const Team& team, std::int64_t place, std::int64_t first_column, W* sums) const {
    for_columns(team, sums, [&](int column, W& sum) {
      if (first_column + column < columns) source.put(place, first_column + column, sum);
    });
  }
};

/// Adds every long run up. `source`: element(place, column), an element as it is computed; target(place, column), what
/// is there now; put(place, column, sum).
template <class T, class Key, class Source>
void add_long_runs(const Source& source, const Key* keys, std::int64_t count, std::int64_t columns, Key nowhere) {
  using Adding = AddLongRun<T, Key, Source>;
  if (count < kLongRun) return;
  const std::int64_t slots = divide_up(count, kLongRun);
  const Scratch runs(static_cast<std::size_t>(slots) * sizeof(KeyRun));
  for_each(slots, FindLongRuns<Key>{keys, runs.as<KeyRun>(), count, nowhere});
  const int block = Adding::block_for(columns);
  const std::int64_t blocks = divide_up(columns, block);
  for_each_row(slots * blocks, 256, Adding::shared_bytes(),
               Adding{source, runs.as<KeyRun>(), columns, block, SizeDivider(blocks)});
}

}  // namespace core::CORE_KERNELS

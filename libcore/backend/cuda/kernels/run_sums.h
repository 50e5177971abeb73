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

/// Where the elements of the places lie, in the order of their keys, and where they go. Elements of a place count as
/// columns.
template <class T, class Key>
struct OrderedElements {
  T* out;
  const T* in;
  const Key* keys;           // offsets in out
  const std::int64_t* from;  // offsets in in, of each place
  std::int64_t places;
  Indexer<3> columns;  // (out, in, ...)
  std::int64_t column_count;
};

/// Adds the elements of one run to one block of the columns of its place.
template <class T, class Key>
struct AddLongRun {
  using W = Computed<T>;
  static constexpr int kTile = 4096;  // elements that are brought at once
  static constexpr int kMostColumns = 16;
  static constexpr int kTogether = 8;  // loads of a lane that are on their way at once
  static constexpr int kAdders = 32;   // lanes of a large team that add while the others bring

  OrderedElements<T, Key> e;
  const KeyRun* runs;
  int block;                  // columns of a team: a power of two, at most its lanes
  SizeDivider column_blocks;  // of a run

  static int block_for(std::int64_t columns, int lanes) {
    int block = 1;
    while (block < kMostColumns && block < columns && block * 2 <= lanes) block *= 2;
    return block;
  }
  static std::size_t shared_bytes() { return 2 * kTile * sizeof(W); }

  CORE_BODY void operator()(const Team& team, std::int64_t row) const {
    const auto at = column_blocks.divide(row);
    const KeyRun run = runs[at.quotient];
    if (run.begin < 0) return;
    const std::int64_t column = at.remainder * block + team.lane() % block;
    const bool inside = column < e.column_count;
    const auto offsets = e.columns(inside ? column : 0);
    const int deep = kTile / block;  // places of a tile
    const int adders = team.size() > kAdders ? kAdders : 0;
    const bool adds = team.lane() < block && inside;
    T* target = e.out + static_cast<std::int64_t>(e.keys[run.begin]) + offsets[0];
    W* tiles = team.shared<W>();
    load({team.lane(), team.size()}, run.begin, run.end, offsets[1], tiles);
    W sum = adds ? widen(*target) : W(0);
    int now = 0;
    for (std::int64_t j = run.begin; j < run.end; j += deep) {
      team.sync();
      if (j + deep < run.end && team.lane() >= adders) {
        load({team.lane() - adders, team.size() - adders}, j + deep, run.end, offsets[1], tiles + (1 - now) * kTile);
      }
      const std::int64_t places = smaller<std::int64_t>(deep, run.end - j);
      for (std::int64_t k = 0; adds && k < places; ++k) {
        sum = static_cast<W>(sum + tiles[now * kTile + k * block + team.lane()]);
      }
      now = 1 - now;
    }
    if (adds) *target = narrow<T>(sum);
  }

 private:
  struct Share {
    int lane, lanes;  // lanes: a multiple of block
  };
  /// This lane's column of the places from `begin` on, as many as a tile has or the run.
  CORE_BODY void load(Share share, std::int64_t begin, std::int64_t end, std::int64_t column, W* tile) const {
    const int deep = share.lanes / block;
    const std::int64_t last = smaller<std::int64_t>(end, begin + kTile / block);
    W* to = tile + share.lane % block;
    for (std::int64_t first = begin + share.lane / block; first < last; first += std::int64_t{kTogether} * deep) {
      W values[kTogether];
      CORE_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t j = first + std::int64_t{k} * deep;
        values[k] = j < last ? W(widen(e.in[e.from[j] + column])) : W(0);
      }
      CORE_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t j = first + std::int64_t{k} * deep;
        if (j < last) to[(j - begin) * block] = values[k];
      }
    }
  }
};

/// Adds every long run up. Keys of `nowhere` are passed over.
template <class T, class Key>
void add_long_runs(const OrderedElements<T, Key>& elements, Key nowhere) {
  using Adding = AddLongRun<T, Key>;
  if (elements.places < kLongRun) return;
  const std::int64_t slots = divide_up(elements.places, kLongRun);
  const Scratch runs(static_cast<std::size_t>(slots) * sizeof(KeyRun));
  for_each(slots, FindLongRuns<Key>{elements.keys, runs.as<KeyRun>(), elements.places, nowhere});
  const int block = Adding::block_for(elements.column_count, team_size(256));
  const std::int64_t blocks = divide_up(elements.column_count, block);
  for_each_row(slots * blocks, 256, Adding::shared_bytes(),
               Adding{elements, runs.as<KeyRun>(), block, SizeDivider(blocks)});
}

}  // namespace core::CORE_KERNELS

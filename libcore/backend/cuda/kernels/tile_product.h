#pragma once
// Products of matrices whose elements are worked out while they are loaded: convolutions and the steps of recurrent
// layers. A team makes a tile of 64 x 64 sums; it brings slices of both factors into shared memory, and each lane keeps
// 4 x 4 sums to itself, or, of halves, each warp some blocks of 16 x 16 on its tensor cores. Sums are taken in one
// order. Thread safety: plain values.
// Use: multiply_tiles(TileGrid(rows, columns, depth, groups, parts), problem), see multiply_tile().

#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tensor_cores.h"

namespace core::CORE_KERNELS {

inline constexpr int kTileRows = 64, kTileColumns = 64, kTileDepth = 16;
inline constexpr int kTileLanes = 256;
/// Blocks of 4 x 4 sums that a lane has: one on the GPU, where a team has kTileLanes lanes; up to all of them where a
/// team has fewer.
#ifdef __CUDACC__
inline constexpr int kTileBlocks = 1;
#else
inline constexpr int kTileBlocks = kTileLanes;
#endif

template <class W>
struct alignas(16) Four {
  W values[4];
};

/// The slices of one team.
template <class Problem>
struct TileSlices {
  using W = typename Problem::Sum;
  static constexpr int kPitch = kTileRows + 4;  // rows of the slices begin in different banks
  alignas(16) W a[kTileDepth][kPitch];
  alignas(16) W b[kTileDepth][kPitch];
  typename Problem::Column columns[kTileColumns];
  typename Problem::Step steps[kTileDepth];
};

struct TilePlace {
  std::int64_t row, column;
  std::int64_t depth_begin, depth_end;
};

template <class Problem>
CORE_BODY void load_slices(const Team& team, const Problem& p, const TilePlace& at, std::int64_t depth,
                           TileSlices<Problem>& s) {
  using W = typename Problem::Sum;
  for (int i = team.lane(); i < kTileDepth; i += team.size()) s.steps[i] = p.step(smaller(depth + i, at.depth_end - 1));
  team.sync();
  for (int i = team.lane(); i < kTileDepth * kTileRows; i += team.size()) {
    const int k = i % kTileDepth, row = i / kTileDepth;
    const bool inside = depth + k < at.depth_end && at.row + row < p.rows;
    s.a[k][row] = inside ? p.a(at.row + row, s.steps[k]) : W(0);
  }
  for (int i = team.lane(); i < kTileDepth * kTileColumns; i += team.size()) {
    const int k = Problem::kBAlongDepth ? i % kTileDepth : i / kTileColumns;
    const int column = Problem::kBAlongDepth ? i / kTileDepth : i % kTileColumns;
    const bool inside = depth + k < at.depth_end && at.column + column < p.columns;
    s.b[k][column] = inside ? p.b(s.steps[k], s.columns[column]) : W(0);
  }
  team.sync();
}

/// sums (4 x 4) += the products of four rows of a slice and four columns of the other.
template <class W>
CORE_BODY void add_products(const W* a, const W* b, int pitch, Four<W>* sums) {
  CORE_UNROLL
  for (int k = 0; k < kTileDepth; ++k) {
    const auto rows = *reinterpret_cast<const Four<W>*>(a + k * pitch);
    const auto columns = *reinterpret_cast<const Four<W>*>(b + k * pitch);
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      CORE_UNROLL
      for (int x = 0; x < 4; ++x) sums[y].values[x] += rows.values[y] * columns.values[x];
    }
  }
}

/// What `Problem` has: Element, the type of the factors' elements; Sum, the type of the sums; rows, columns; Column and
/// Step, what there is to know of a column and of a step along the depth, made by column(n) and step(k); a(row, step)
/// and b(step, column), the factors' elements; kBAlongDepth, whether steps of b lie side by side; finish(row, column,
/// columns, count, sums), which takes the sums of up to four neighbouring columns.
template <class Problem>
CORE_BODY void multiply_tile(const Team& team, const Problem& p, const TilePlace& at) {
  using W = typename Problem::Sum;
  auto& s = *team.template shared<TileSlices<Problem>>();
  for (int i = team.lane(); i < kTileColumns; i += team.size()) {
    s.columns[i] = p.column(smaller(at.column + i, p.columns - 1));
  }
  team.sync();
  Four<W> sums[kTileBlocks][4] = {};
  for (std::int64_t depth = at.depth_begin; depth < at.depth_end; depth += kTileDepth) {
    load_slices(team, p, at, depth, s);
    CORE_UNROLL
    for (int block = 0; block < kTileBlocks; ++block) {
      const int i = team.lane() + block * team.size();
      if (i < kTileLanes) add_products<W>(s.a[0] + i / 16 * 4, s.b[0] + i % 16 * 4, s.kPitch, sums[block]);
    }
    team.sync();
  }
  CORE_UNROLL
  for (int block = 0; block < kTileBlocks; ++block) {
    const int i = team.lane() + block * team.size(), column = i % 16 * 4;
    const auto count = static_cast<int>(smaller<std::int64_t>(4, p.columns - at.column - column));
    if (i >= kTileLanes || count <= 0) continue;
    CORE_UNROLL
    for (int y = 0; y < 4; ++y) {
      const std::int64_t row = at.row + i / 16 * 4 + y;
      if (row < p.rows) p.finish(row, at.column + column, s.columns + column, count, sums[block][y]);
    }
  }
}

/// The slices of halves, then their sums.
template <class Problem>
struct HalfSlices {
  using T = typename Problem::Element;
  static constexpr int kDepth = 32, kLeftPitch = kDepth + 8, kRightPitch = kTileColumns + 8;
  static constexpr int kSumPitch = kTileColumns + 4;
  alignas(128) T a[kTileRows][kLeftPitch];
  alignas(128) T b[kDepth][kRightPitch];
  alignas(128) float sums[kTileRows][kSumPitch];
  typename Problem::Column columns[kTileColumns];
  typename Problem::Step steps[kDepth];
};

template <class Problem>
CORE_BODY void load_slices(const Team& team, const Problem& p, const TilePlace& at, std::int64_t depth,
                           HalfSlices<Problem>& s) {
  using T = typename Problem::Element;
  constexpr int kDepth = HalfSlices<Problem>::kDepth;
  for (int i = team.lane(); i < kDepth; i += team.size()) s.steps[i] = p.step(smaller(depth + i, at.depth_end - 1));
  team.sync();
  for (int i = team.lane(); i < kDepth * kTileRows; i += team.size()) {
    const int k = i % kDepth, row = i / kDepth;
    const bool inside = depth + k < at.depth_end && at.row + row < p.rows;
    s.a[row][k] = narrow<T>(inside ? p.a(at.row + row, s.steps[k]) : 0.0F);
  }
  for (int i = team.lane(); i < kDepth * kTileColumns; i += team.size()) {
    const int k = Problem::kBAlongDepth ? i % kDepth : i / kTileColumns;
    const int column = Problem::kBAlongDepth ? i / kDepth : i % kTileColumns;
    const bool inside = depth + k < at.depth_end && at.column + column < p.columns;
    s.b[k][column] = narrow<T>(inside ? p.b(s.steps[k], s.columns[column]) : 0.0F);
  }
  team.sync();
}

/// multiply_tile() of halves.
template <class Problem>
CORE_BODY void multiply_half_tile(const Team& team, const Problem& p, const TilePlace& at) {
  using Slices = HalfSlices<Problem>;
  auto& s = *team.template shared<Slices>();
  for (int i = team.lane(); i < kTileColumns; i += team.size()) {
    s.columns[i] = p.column(smaller(at.column + i, p.columns - 1));
  }
  SharedBlocks<2> blocks(team, kTileRows / kBlock, kTileColumns / kBlock);
  team.sync();
  for (std::int64_t depth = at.depth_begin; depth < at.depth_end; depth += Slices::kDepth) {
    load_slices(team, p, at, depth, s);
    multiply_blocks<Lying::straight, Lying::straight>(blocks, s.a[0], Slices::kLeftPitch, s.b[0], Slices::kRightPitch,
                                                      Slices::kDepth);
    team.sync();
  }
  store_blocks(blocks, s.sums[0], Slices::kSumPitch);
  team.sync();
  for (int i = team.lane(); i < kTileRows * kTileColumns / 4; i += team.size()) {
    const int y = i / (kTileColumns / 4), x = i % (kTileColumns / 4) * 4;
    const auto count = static_cast<int>(smaller<std::int64_t>(4, p.columns - at.column - x));
    if (count <= 0 || at.row + y >= p.rows) continue;
    const auto four = *reinterpret_cast<const Four<float>*>(&s.sums[y][x]);
    p.finish(at.row + y, at.column + x, s.columns + x, count, four);
  }
}

/// The tiles of a product, its groups and the parts that its depth is cut into.
struct TileGrid {
  std::int64_t depth, part_size, parts, groups, tiles;
  SizeDivider per_row, per_part, per_group;

  struct Place {
    std::int64_t group, part;
    TilePlace tile;
  };

  TileGrid(std::int64_t rows, std::int64_t columns, std::int64_t depth_, std::int64_t groups_,
           std::int64_t wanted_parts)
      : depth(depth_), groups(groups_) {
    const std::int64_t across = divide_up(columns, kTileColumns), down = divide_up(rows, kTileRows);
    part_size = divide_up(divide_up(depth, larger<std::int64_t>(1, wanted_parts)), kTileDepth) * kTileDepth;
    parts = larger<std::int64_t>(1, divide_up(depth, larger<std::int64_t>(1, part_size)));
    tiles = across * down;
    per_row = SizeDivider(across);
    per_part = SizeDivider(tiles);
    per_group = SizeDivider(parts);
  }
  std::int64_t count() const { return tiles * parts * groups; }
  CORE_BODY Place at(std::int64_t index) const {
    const auto outer = per_part.divide(index);
    const auto tile = per_row.divide(outer.remainder);
    const auto group = per_group.divide(outer.quotient);
    const std::int64_t begin = group.remainder * part_size;
    return {group.quotient,
            group.remainder,
            {tile.quotient * kTileRows, tile.remainder * kTileColumns, begin, smaller(depth, begin + part_size)}};
  }
};

template <class Problem>
struct TileOfProduct {
  TileGrid grid;
  Problem problem;
  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto at = grid.at(index);
    if constexpr (kIsHalf<typename Problem::Element>) {
      multiply_half_tile(team, problem.of(at.group, at.part), at.tile);
    } else {
      multiply_tile(team, problem.of(at.group, at.part), at.tile);
    }
  }
};

/// All tiles of all groups; problem.of(group, part) is what one of them works on.
template <class Problem>
void multiply_tiles(const TileGrid& grid, const Problem& problem) {
  constexpr bool kHalves = kIsHalf<typename Problem::Element>;
  using Slices = std::conditional_t<kHalves, HalfSlices<Problem>, TileSlices<Problem>>;
  for_each_row(grid.count(), kTileLanes, sizeof(Slices), TileOfProduct<Problem>{grid, problem});
}

}  // namespace core::CORE_KERNELS

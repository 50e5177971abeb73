#pragma once
// Arrays of rows and columns where what belongs together stands in one column, as the channels of images whose channels
// lie last: sums down the columns, and maps by what a column has. Neighbouring lanes work on neighbouring columns, so
// that memory is read side by side. Thread safety: plain values; the order of sums depends on the sizes alone.
// Use: sum_columns<W>(rows, columns, partial, Plus(), finish);

#include <type_traits>

#include "libcore/backend/cuda/kernels/nn_elements.h"

namespace core::CORE_KERNELS {

/// A team sums a block of columns over a part of the rows.
struct ColumnParts {
  static constexpr std::int64_t kColumns = 32, kRowsAtOnce = 8, kLanes = kColumns * kRowsAtOnce;
  std::int64_t rows, columns, blocks, parts, part_size;

  ColumnParts(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_) {
    constexpr std::int64_t kTeams = 1024, kFewest = 64;  // teams that fill a GPU; rows worth a team
    blocks = divide_up(columns, kColumns);
    parts = larger<std::int64_t>(1, smaller(kTeams / larger<std::int64_t>(1, blocks), rows / kFewest));
    part_size = divide_up(rows, parts);
  }
};

/// `found` (parts, columns): the sums of each part. See sum_columns().
template <class Sum, class Partial, class Merge>
void sum_parts(const ColumnParts& parts, Sum* found, const Partial& partial, const Merge& merge) {
  const ColumnParts c = parts;
  const SizeDivider per_block(c.blocks);
  for_each_row(c.blocks * c.parts, c.kLanes, c.kLanes * sizeof(Sum), [=] CORE_BODY(const Team& team, std::int64_t i) {
    const auto at = per_block.divide(i);
    const std::int64_t first = at.remainder * c.kColumns, begin = at.quotient * c.part_size;
    const std::int64_t end = smaller(c.rows, begin + c.part_size);
    Sum* shared = team.shared<Sum>();
    for (std::int64_t item = team.lane(); item < c.kLanes; item += team.size()) {
      const std::int64_t column = first + item % c.kColumns;
      shared[item] = column < c.columns ? partial(column, begin + item / c.kColumns, end, c.kRowsAtOnce) : Sum{};
    }
    team.sync();
    for (std::int64_t k = team.lane(); k < c.kColumns && first + k < c.columns; k += team.size()) {
      Sum all = shared[k];
      for (std::int64_t row = 1; row < c.kRowsAtOnce; ++row) all = merge(all, shared[row * c.kColumns + k]);
      found[at.quotient * c.columns + first + k] = all;
    }
  });
}

/// finish(column, sum) for every column. partial(column, begin, end, step): the sum over the rows begin, begin + step
/// and so on below end; merge(a, b): both; Sum{}: of nothing.
template <class Sum, class Partial, class Merge, class Finish>
void sum_columns(std::int64_t rows, std::int64_t columns, const Partial& partial, const Merge& merge,
                 const Finish& finish) {
  const ColumnParts c(rows, columns);
  const Scratch scratch(static_cast<std::size_t>(c.parts * columns) * sizeof(Sum));
  auto* found = scratch.as<Sum>();
  sum_parts(c, found, partial, merge);
  const std::int64_t parts = c.parts;
  for_each_row(columns, parts, [=] CORE_BODY(const Team& team, std::int64_t column) {
    Sum mine{};
    for (std::int64_t part = team.lane(); part < parts; part += team.size()) {
      mine = merge(mine, found[part * columns + column]);
    }
    const Sum all = team.reduce(mine, merge);
    if (team.lane() == 0) finish(column, all);
  });
}

/// How the rows of packs of V columns are shared out: each lane stays in its columns.
struct PackRows {
  static constexpr std::int64_t kLanes = 256;
  std::int64_t rows, packs, width, rows_at_once, blocks, part_size;

  PackRows(std::int64_t rows_, std::int64_t packs_) : rows(rows_), packs(packs_) {
    constexpr std::int64_t kWidest = 32, kTeams = 1056, kMostRows = 64;
    width = smaller(kWidest, larger<std::int64_t>(1, packs));
    rows_at_once = kLanes / width;
    blocks = divide_up(packs, width);
    const std::int64_t each = smaller(kMostRows, rows * packs / (kTeams * kLanes));
    part_size = rows_at_once * larger<std::int64_t>(1, each);
  }
  std::int64_t teams() const { return blocks * divide_up(rows, part_size); }
};

/// out = body.at(column)(x, y) for every x of `in` and y of `other`, which may be `in`. REQUIRES: V divides columns,
/// and is 1 unless the arrays begin at multiples of 16 bytes.
template <class T, int V, class Body>
void map_columns(std::int64_t rows, std::int64_t columns, const T* in, const T* other, T* out, const Body& body) {
  using OfColumn = std::remove_cvref_t<decltype(body.at(0))>;
  const PackRows r(rows, columns / V);
  const SizeDivider per_block(r.blocks), per_row(r.width);
  for_each_row(r.teams(), r.kLanes, [=] CORE_BODY(const Team& team, std::int64_t i) {
    const auto at = per_block.divide(i);
    const std::int64_t begin = at.quotient * r.part_size, end = smaller(r.rows, begin + r.part_size);
    for (std::int64_t item = team.lane(); item < r.width * r.rows_at_once; item += team.size()) {
      const auto lane = per_row.divide(item);
      const std::int64_t pack = at.remainder * r.width + lane.remainder;
      if (pack >= r.packs) continue;
      OfColumn of[V];
      CORE_UNROLL
      for (int k = 0; k < V; ++k) of[k] = body.at(pack * V + k);
      for (std::int64_t row = begin + lane.quotient; row < end; row += r.rows_at_once) {
        const std::int64_t place = (row * r.packs + pack) * V;
        Computed<T> x[V], y[V];
        load_pack<V>(in + place, x);
        load_pack<V>(other + place, y);
        CORE_UNROLL
        for (int k = 0; k < V; ++k) x[k] = of[k](x[k], y[k]);
        store_pack<V>(x, out + place);
      }
    }
  });
}

}  // namespace core::CORE_KERNELS

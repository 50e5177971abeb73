#pragma once
// What the steps of recurrent layers have in common: weights of the state, packed once for all steps into panels that
// one band of registers multiplies with. In an anonymous namespace on purpose: see vector.h.
// Thread safety: pure functions but for the thread's scratch memory (Scratch::weight). Included by kernels only.
// Use: const Panels<T> weight = packed_turned(w_hh, n, 4 * n); multiply<T>(h, rows, weight, sums, 1);

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/gemm/small.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/recurrent_table.h"

namespace core::cpu {
namespace {

/// Rows of a batch that are worth a thread's start, whose steps take `step` multiplications each.
std::int64_t rows_of_thread(const RecurrentSizes& s, std::int64_t step) {
  constexpr std::int64_t kWork = std::int64_t{1} << 20, kFewest = 4;  // below, the weights are read more than used
  return std::max(kFewest, kWork / std::max<std::int64_t>(1, s.steps * step));
}

/// A matrix cut into panels of two vectors of columns, each dense from its first row to its last.
template <class T>
struct Panels {
  static constexpr std::int64_t kColumns = 2 * kWidth<T>;  ///< what product_band() keeps in registers
  std::int64_t rows, columns;
  T* data;

  static std::int64_t size(std::int64_t rows, std::int64_t columns) {
    return rows * ((columns + kColumns - 1) / kColumns * kColumns);
  }
  T* panel(std::int64_t column) const { return data + column * rows; }
};

/// Packs w (rows x columns).
template <class T>
Panels<T> packed(const T* w, std::int64_t rows, std::int64_t columns) {
  Panels<T> p{rows, columns, scratch<T>(Scratch::weight, Panels<T>::size(rows, columns))};
  for (std::int64_t column = 0; column < columns; column += p.kColumns) {
    const std::int64_t wide = std::min<std::int64_t>(p.kColumns, columns - column);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(w + row * columns + column, wide, p.panel(column) + row * p.kColumns);
    }
  }
  return p;
}

/// Packs the transpose of w, which is (columns x rows).
template <class T>
Panels<T> packed_turned(const T* w, std::int64_t rows, std::int64_t columns) {
  Panels<T> p{rows, columns, scratch<T>(Scratch::weight, Panels<T>::size(rows, columns))};
  for (std::int64_t column = 0; column < columns; column += p.kColumns) {
    const std::int64_t wide = std::min<std::int64_t>(p.kColumns, columns - column);
    turned(w + column * rows, rows, wide, rows, p.panel(column), p.kColumns);
  }
  return p;
}

/// c (count x columns) = a (count x rows) b + beta * c. One order of summation, whatever the count.
template <class T>
void multiply(const T* a, std::int64_t count, const Panels<T>& b, T* c, T beta) {
  for (std::int64_t column = 0; column < b.columns; column += b.kColumns) {
    SmallProduct<T> p{.m = count,
                      .n = std::min<std::int64_t>(b.kColumns, b.columns - column),
                      .k = b.rows,
                      .a = a,
                      .a_row = b.rows,
                      .a_step = 1,
                      .b = b.panel(column),
                      .ldb = b.kColumns,
                      .c = c + column,
                      .ldc = b.columns,
                      .beta = beta};
    std::int64_t row = 0;
    for (; row + kBandRows <= count; row += kBandRows) product_band<T, kBandRows>(p, row);
    for (; row + 4 <= count; row += 4) product_band<T, 4>(p, row);
    for (; row + 2 <= count; row += 2) product_band<T, 2>(p, row);
    if (row < count) product_band<T, 1>(p, row);
  }
}

std::int64_t step_number(const RecurrentSizes& s, std::int64_t i) {
  return s.reverse ? s.steps - 1 - i : i;
}

}  // namespace
}  // namespace core::cpu

#pragma once
// Small matrix products straight from the operands' memory: no packing, no call into a library. Every element of the
// result is summed in an order that depends on the sizes alone.
// In an anonymous namespace on purpose: see vector.h. Thread safety: pure functions. Included by kernels only.
// Use: rows_product(SmallProduct<float>{.m = 8, .n = 64, .k = 64, .a = a, ...});

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

/// c (m x n, rows ldc apart) = alpha * a b + beta * c + bias. Element (i, p) of a: a[i * a_row + p * a_step].
template <class T>
struct SmallProduct {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_step;
  const T* b;
  std::int64_t ldb;
  T* c;
  std::int64_t ldc;
  T alpha = 1;
  T beta = 0;
  const T* bias = nullptr;  // n elements, or null
};

/// What becomes of a finished vector of sums; column: of its first element.
template <class T>
CORE_INLINE Vector<T> finished(const SmallProduct<T>& p, Vector<T> sums, const T* c, std::int64_t column,
                               std::int64_t left) {
  if (p.alpha != 1) sums = sums * p.alpha;
  if (p.beta == 1) {
    sums = sums + load_up_to(c, left);
  } else if (p.beta != 0) {
    sums = sums + load_up_to(c, left) * p.beta;
  }
  return p.bias == nullptr ? sums : sums + load_up_to(p.bias + column, left);
}

/// finished(), stored. `plain`: p.alpha is 1 and p.beta 0, asked once for all vectors of a block, as the compiler has
/// to take every store for one into p.
template <class T>
CORE_INLINE void put_finished(const SmallProduct<T>& p, bool plain, const T* bias, const Vector<T>& sums, T* c,
                              std::int64_t column, std::int64_t left) {
  if (!plain) return store_up_to(c, finished(p, sums, c, column, left), left);
  store_up_to(c, bias == nullptr ? sums : sums + load_up_to(bias + column, left), left);
}
template <class T>
CORE_INLINE bool is_plain(const SmallProduct<T>& p) {
  return p.alpha == 1 && p.beta == 0;
}

/// kRows x kVectors vectors of the result; `left`: columns there are from `column` on.
template <class T, int kRows, int kVectors, bool kWhole>
CORE_INLINE void product_block(const SmallProduct<T>& p, std::int64_t row, std::int64_t column, std::int64_t left) {
  constexpr int kLast = kVectors - 1;
  Vector<T> sums[kRows][kVectors] = {};
  const T* a = p.a + row * p.a_row;
  const T* b = p.b + column;
  const std::int64_t tail = left - kLast * kWidth<T>;
  for (std::int64_t i = 0; i < p.k; ++i, a += p.a_step, b += p.ldb) {
    Vector<T> line[kVectors];
    for (int v = 0; v < kLast; ++v) line[v] = load(b + v * kWidth<T>);
    line[kLast] = kWhole ? load(b + kLast * kWidth<T>) : load_up_to(b + kLast * kWidth<T>, tail);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const T factor = a[r * p.a_row];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * line[v];
    }
  }
  const bool plain = is_plain(p);
  const T* const bias = p.bias;
  const std::int64_t ldc = p.ldc;
  T* line = p.c + row * ldc + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, line += ldc) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t here = kWhole || v < kLast ? kWidth<T> : tail;
      put_finished(p, plain, bias, sums[r][v], line + v * kWidth<T>, column + v * kWidth<T>, here);
    }
  }
}

/// One row and at most one vector: the sum over k is cut in four, or each addition would wait four cycles for the one
/// before.
template <class T>
CORE_INLINE void product_line(const SmallProduct<T>& p, std::int64_t row, std::int64_t column, std::int64_t left) {
  constexpr int kWays = 4;
  Vector<T> sums[kWays] = {};
  const T* a = p.a + row * p.a_row;
  const T* b = p.b + column;
  std::int64_t i = 0;
  for (; i + kWays <= p.k; i += kWays, a += kWays * p.a_step, b += kWays * p.ldb) {
    for (int w = 0; w < kWays; ++w) sums[w] += a[w * p.a_step] * load_up_to(b + w * p.ldb, left);
  }
  for (; i < p.k; ++i, a += p.a_step, b += p.ldb) sums[0] += *a * load_up_to(b, left);
  T* c = p.c + row * p.ldc + column;
  store_up_to(c, finished(p, (sums[0] + sums[1]) + (sums[2] + sums[3]), c, column, left), left);
}

template <class T, int kRows>
CORE_INLINE void product_band(const SmallProduct<T>& p, std::int64_t row) {
  constexpr int kW = kWidth<T>;
  std::int64_t column = 0;
  for (; column + 2 * kW <= p.n; column += 2 * kW) product_block<T, kRows, 2, true>(p, row, column, 2 * kW);
  const std::int64_t left = p.n - column;
  if (left > kW) {
    product_block<T, kRows, 2, false>(p, row, column, left);
  } else if (left == kW) {
    product_block<T, kRows, 1, true>(p, row, column, left);
  } else if (left > 0) {
    product_block<T, kRows, 1, false>(p, row, column, left);
  }
}

/// Rows of the result that are summed side by side: as many as there are registers for. By two vectors these are 16
/// sums of AVX-512's 32 registers and 8 of the 16 before it, beside the two vectors of b and a factor.
#if defined(__AVX512F__)
constexpr int kBandRows = 8;
#else
constexpr int kBandRows = 4;
#endif

/// Any a; rows of b lie dense.
template <class T>
void rows_product(const SmallProduct<T>& p) {
  if (p.m == 1) {
    for (std::int64_t column = 0; column < p.n; column += kWidth<T>) product_line(p, 0, column, p.n - column);
    return;
  }
  std::int64_t row = 0;
  for (; row + kBandRows <= p.m; row += kBandRows) product_band<T, kBandRows>(p, row);
  if (p.m - row >= 4) {
    product_band<T, 4>(p, row);
    row += 4;
  }
  if (p.m - row >= 2) {
    product_band<T, 2>(p, row);
    row += 2;
  }
  if (row < p.m) product_band<T, 1>(p, row);
}

/// Puts kRows x kColumns finished sums where they belong, as far as there are rows and columns.
template <class T, int kRows, int kColumns>
CORE_INLINE void put_dots(const SmallProduct<T>& p, const Vector<T>& sums, std::int64_t row, std::int64_t column) {
  typedef T Line __attribute__((vector_size(kColumns * sizeof(T))));
  const auto line_at = [](const T* from) __attribute__((always_inline)) {
    Line line;
    std::memcpy(&line, from, sizeof line);
    return line;
  };
  T flat[kWidth<T>];
  store(flat, sums);
  const std::int64_t rows = std::min<std::int64_t>(kRows, p.m - row);
  if (p.n - column >= kColumns) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* c = p.c + (row + r) * p.ldc + column;
      Line line = line_at(flat + r * kColumns);
      if (p.alpha != 1) line = line * p.alpha;
      if (p.beta != 0) line = line + line_at(c) * p.beta;
      if (p.bias != nullptr) line = line + line_at(p.bias + column);
      std::memcpy(c, &line, sizeof line);
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < p.n - column; ++k) {
      T& c = p.c[(row + r) * p.ldc + column + k];
      T sum = flat[r * kColumns + k] * p.alpha;
      if (p.beta != 0) sum += p.beta * c;
      c = p.bias == nullptr ? sum : sum + p.bias[column + k];
    }
  }
}

/// kRows x kColumns elements, kWidth of them in all, as dot products. Behind the last row or column the last one is
/// taken again and its results are dropped.
template <class T, int kRows, int kColumns>
CORE_INLINE void dots_block(const SmallProduct<T>& p, std::int64_t row, std::int64_t column) {
  static_assert(kRows * kColumns == kWidth<T>);
  const T* a[kRows];
  const T* b[kColumns];
  for (int r = 0; r < kRows; ++r) a[r] = p.a + std::min(row + r, p.m - 1) * p.a_row;
  for (int c = 0; c < kColumns; ++c) b[c] = p.b + std::min(column + c, p.n - 1) * p.ldb;
  Vector<T> sums[kWidth<T>] = {};
  std::int64_t i = 0;
  const auto step = [&](auto get) __attribute__((always_inline)) {
    Vector<T> rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = get(a[r] + i);
    for (int c = 0; c < kColumns; ++c) {
      const Vector<T> other = get(b[c] + i);
      for (int r = 0; r < kRows; ++r) sums[r * kColumns + c] += rows[r] * other;
    }
  };
  for (; i + kWidth<T> <= p.k; i += kWidth<T>)
    step([](const T* at) __attribute__((always_inline)) { return load(at); });
  if (const int rest = static_cast<int>(p.k - i); rest > 0) {
    step([rest](const T* at) __attribute__((always_inline)) { return load_part(at, rest); });
  }
  put_dots<T, kRows, kColumns>(p, sums_of<T>(sums), row, column);
}

/// Products of the one row of a with four rows of b, not yet summed: four streams with four sums each keep as many
/// reads of memory under way as a core allows.
template <class T>
CORE_INLINE void four_dots(const SmallProduct<T>& p, std::int64_t column, Vector<T>* out) {
  constexpr int kColumns = 4, kDeep = 4;
  const T* b[kColumns];
  for (int c = 0; c < kColumns; ++c) b[c] = p.b + std::min(column + c, p.n - 1) * p.ldb;
  Vector<T> sums[kColumns][kDeep] = {};
  std::int64_t i = 0;
  for (; i + kDeep * kWidth<T> <= p.k; i += kDeep * kWidth<T>) {
    for (int d = 0; d < kDeep; ++d) {
      const Vector<T> row = load(p.a + i + d * kWidth<T>);
      for (int c = 0; c < kColumns; ++c) sums[c][d] += row * load(b[c] + i + d * kWidth<T>);
    }
  }
  for (; i < p.k; i += kWidth<T>) {
    const Vector<T> row = load_up_to(p.a + i, p.k - i);
    for (int c = 0; c < kColumns; ++c) sums[c][0] += row * load_up_to(b[c] + i, p.k - i);
  }
  for (int c = 0; c < kColumns; ++c) out[c] = (sums[c][0] + sums[c][1]) + (sums[c][2] + sums[c][3]);
}

/// c = alpha * a b^T + ... for one row a and so many rows of b that reading them is what takes the time.
template <class T>
void line_of_dots(const SmallProduct<T>& p) {
  constexpr int kW = kWidth<T>;
  static_assert(kW % 4 == 0);
  for (std::int64_t column = 0; column < p.n; column += kW) {
    Vector<T> sums[kW];
    for (int c = 0; c < kW; c += 4) four_dots(p, column + c, sums + c);
    put_dots<T, 1, kW>(p, sums_of<T>(sums), 0, column);
  }
}

/// c = alpha * a b^T + ...: rows of a and rows of b lie dense (a_step is not looked at). b is (n x k).
template <class T>
void dots_product(const SmallProduct<T>& p) {
  constexpr int kW = kWidth<T>;
  if (p.n == 1) {
    for (std::int64_t row = 0; row < p.m; row += kW) dots_block<T, kW, 1>(p, row, 0);
    return;
  }
  if (p.m == 1) {
    for (std::int64_t column = 0; column < p.n; column += kW) dots_block<T, 1, kW>(p, 0, column);
    return;
  }
  constexpr int kColumns = kW >= 4 ? 4 : 2;
  constexpr int kRows = kW / kColumns;
  for (std::int64_t row = 0; row < p.m; row += kRows) {
    for (std::int64_t column = 0; column < p.n; column += kColumns) dots_block<T, kRows, kColumns>(p, row, column);
  }
}

/// out (columns x rows) = in (rows x columns) turned.
template <class T>
void turned(const T* in, std::int64_t ldi, std::int64_t rows, std::int64_t columns, T* out, std::int64_t ldo) {
  constexpr int kW = kWidth<T>;
  for (std::int64_t row = 0; row < rows; row += kW) {
    const std::int64_t high = std::min<std::int64_t>(kW, rows - row);
    for (std::int64_t column = 0; column < columns; column += kW) {
      const std::int64_t wide = std::min<std::int64_t>(kW, columns - column);
      Vector<T> square[kW];
      for (int r = 0; r < kW; ++r) {
        square[r] = r < high ? load_up_to(in + (row + r) * ldi + column, wide) : Vector<T>{};
      }
      transpose<T>(square);
      for (int c = 0; c < wide; ++c) store_up_to(out + (column + c) * ldo + row, square[c], high);
    }
  }
}

}  // namespace
}  // namespace core::cpu

// W x^T for a few rows x and a large W, for one instruction set (CORE_CPU_VARIANT names the namespace): W is read once,
// from where it lies, against a turned copy of x that stays in the cache.
#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/gemm/parts.h"
#include "libcore/backend/cpu/gemm/small.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)

constexpr int kVector = kWidth<float>;
/// Numbers of a cache line: so many steps of k ask for one line of each of the next rows.
constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(float));
constexpr std::int64_t kBand = 24;   // rows of W a piece of work has, or a multiple: fits all kernels' rows
constexpr std::int64_t kPanel = 16;  // vectors of x's rows that are multiplied with W in one go

/// Rows of W whose sums are under way: kBand by 64 vectors are 96 KiB, which stay in the second cache beside a chunk of
/// x.
std::int64_t rows_of_block(std::int64_t vectors) {
  constexpr std::int64_t kVectorsOfSums = 64;
  return kBand * (kVectorsOfSums / vectors);
}

/// out (rows of W x kVectors vectors) = w (rows x k) x (k x kVectors vectors).
struct FewColumns {
  const float* w;
  std::int64_t ldw;
  const float* x;
  float* out;
  const float* after;  ///< what is needed when the last row is done
};

/// Some rows of a chunk; meanwhile fetches what comes after them.
template <int kVectors, int kRows>
CORE_INLINE void few_columns_block(const FewColumns& p, const Chunk& chunk, std::int64_t row, const float* next) {
  constexpr int kColumns = kVectors * kWidth<float>;
  Vector<float> sums[kRows][kVectors] = {};
  const float* w = p.w + row * p.ldw + chunk.begin;
  const float* x = p.x + chunk.begin * kColumns;
  for (std::int64_t line = 0; line < chunk.count; line += kLine) {
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(next + r * p.ldw + line, 0, 2);
    const std::int64_t end = std::min(line + kLine, chunk.count);
    for (std::int64_t i = line; i < end; ++i) {
      Vector<float> columns[kVectors];
      for (int v = 0; v < kVectors; ++v) columns[v] = load(x + i * kColumns + v * kWidth<float>);
#pragma GCC unroll 24
      for (int r = 0; r < kRows; ++r) {
        const float factor = w[r * p.ldw + i];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * columns[v];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* out = p.out + (row + r) * kColumns + v * kWidth<float>;
      store(out, chunk.begin == 0 ? sums[r][v] : sums[r][v] + load(out));
    }
  }
}

template <int kVectors, int kRows>
void few_columns_rows(const FewColumns& p, const Chunk& chunk, std::int64_t rows) {
  std::int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    const float* next = row + 2 * kRows <= rows ? p.w + (row + kRows) * p.ldw + chunk.begin : p.after;
    few_columns_block<kVectors, kRows>(p, chunk, row, next);
  }
  for (; row < rows; ++row) few_columns_block<kVectors, 1>(p, chunk, row, p.after);
}

/// Vectors by rows of W: 16, 24 and 24 sums of 32 registers, which leaves room for the columns and a factor. More rows
/// would read each column of x less often, but more vectors read each number of W for more products.
void few_columns_of(std::int64_t vectors, const FewColumns& p, const Chunk& chunk, std::int64_t rows) {
  if (vectors == 1) return few_columns_rows<1, 16>(p, chunk, rows);
  if (vectors == 2) return few_columns_rows<2, 12>(p, chunk, rows);
  few_columns_rows<3, 8>(p, chunk, rows);
}

/// A result turned: rows of t, `ldt` apart, become columns of c.
struct Turn {
  const float* t;
  std::int64_t ldt;
  float* c;
  std::int64_t ldc, rows, columns;
  const float* bias;  ///< of each column, or null
  bool adds;          ///< to what c holds
};

void put_turned(const Turn& p) {
  for (std::int64_t column = 0; column < p.columns; column += kVector) {
    const std::int64_t wide = std::min<std::int64_t>(kVector, p.columns - column);
    const Vector<float> bias = p.bias != nullptr ? load_up_to(p.bias + column, wide) : Vector<float>{};
    for (std::int64_t row = 0; row < p.rows; row += kVector) {
      const std::int64_t high = std::min<std::int64_t>(kVector, p.rows - row);
      Vector<float> square[kVector];
      for (int i = 0; i < kVector; ++i) {
        square[i] = i < wide ? load(p.t + (column + i) * p.ldt + row) : Vector<float>{};
      }
      transpose<float>(square);
      for (int i = 0; i < high; ++i) {
        float* c = p.c + (row + i) * p.ldc + column;
        Vector<float> sums = square[i];
        if (p.adds) sums = sums + load_up_to(c, wide);
        if (p.bias != nullptr) sums = sums + bias;
        store_up_to(c, sums, wide);
      }
    }
  }
}

/// Some rows of x, as many as fit in `vectors`, and their results.
struct RowPanel {
  const OneProduct& product;
  std::int64_t first, rows, vectors;
  float* x;  ///< (k x vectors), turned, part by part

  void turn_vector(std::int64_t number, std::int64_t place, std::int64_t part) const;
  void multiply(std::int64_t begin, std::int64_t end) const;
};

/// Makes one vector of each row of the turned x, the one at `place` in a part of `part` vectors.
void RowPanel::turn_vector(std::int64_t number, std::int64_t place, std::int64_t part) const {
  const GemmParams& p = product.params;
  const std::int64_t high = std::min<std::int64_t>(kVector, rows - number * kVector), apart = part * kVector;
  float* to = x + ((number - place) * p.k + place) * kVector;
  for (std::int64_t i = 0; high < kVector && i < p.k; ++i) std::fill_n(to + i * apart, kVector, 0.0F);
  turned(product.a + (first + number * kVector) * p.lda, p.lda, high, p.k, to, apart);
}

/// Rows begin .. end of W.
void RowPanel::multiply(std::int64_t begin, std::int64_t end) const {
  const GemmParams& p = product.params;
  const std::int64_t block = rows_of_block(vectors);
  const CallMemory sums(block * vectors * kVector);
  for (std::int64_t row = begin; row < end; row += block) {
    const std::int64_t count = std::min(block, end - row);
    const float* w = product.b + row * p.ldb;
    Chunk chunk{};
    for (std::int64_t at = 0; at < p.k; at += chunk.count) {
      chunk = chunk_at(at, p.k);
      const bool more_of_k = at + chunk.count < p.k, more_rows = row + count < end;
      const float* after = more_of_k ? w + at + chunk.count : more_rows ? w + count * p.ldb : w;
      for_each_part(vectors, [&](std::int64_t number, std::int64_t part) {
        float* out = sums.data() + number * kVector * block;
        few_columns_of(part, {w, p.ldb, x + number * kVector * p.k, out, after}, chunk, count);
      });
    }
    for_each_part(vectors, [&](std::int64_t number, std::int64_t part) {
      const std::int64_t line = first + number * kVector;
      put_turned({.t = sums.data() + number * kVector * block,
                  .ldt = part * kVector,
                  .c = product.c + line * p.ldc + row,
                  .ldc = p.ldc,
                  .rows = std::min(part * kVector, first + rows - line),
                  .columns = count,
                  .bias = p.bias != nullptr ? static_cast<const float*>(p.bias) + row : nullptr,
                  .adds = product.beta != 0});
    });
  }
}

void multiply_panel(const RowPanel& panel) {
  const GemmParams& p = panel.product.params;
  constexpr std::int64_t kWork = 1 << 19;   // multiplications, below which a thread more costs more than it does
  constexpr std::int64_t kTurns = 1 << 15;  // elements turned, below which a thread more costs more than it does
  parallel_for(panel.vectors, 1 + kTurns / (p.k * kVector), [&](std::int64_t begin, std::int64_t end) {
    for_each_part(panel.vectors, [&](std::int64_t number, std::int64_t part) {
      for (std::int64_t i = 0; i < part; ++i) {
        if (number + i >= begin && number + i < end) panel.turn_vector(number + i, i, part);
      }
    });
  });
  const std::int64_t bands = (p.n + kBand - 1) / kBand;
  const std::int64_t grain = 1 + kWork / (p.k * kBand * panel.vectors * kVector);
  parallel_for(bands, grain, [&](std::int64_t begin, std::int64_t end) {
    panel.multiply(begin * kBand, std::min(end * kBand, p.n));
  });
}

#endif

}  // namespace

bool CORE_CPU_VARIANT::few_rows(const OneProduct& product) {
#if defined(__AVX512F__)
  const GemmParams& p = product.params;
  if (p.alpha != 1 || (product.beta != 0 && product.beta != 1) || p.k == 0) return false;
  const std::int64_t vectors = (p.m + kVector - 1) / kVector, panels = (vectors + kPanel - 1) / kPanel;
  const std::int64_t each = (vectors + panels - 1) / panels;
  const CallMemory x(p.k * each * kVector);
  for (std::int64_t first = 0; first < p.m; first += each * kVector) {
    const std::int64_t rows = std::min(each * kVector, p.m - first);
    multiply_panel({product, first, rows, (rows + kVector - 1) / kVector, x.data()});
  }
  return true;
#else
  static_cast<void>(product);
  return false;
#endif
}

}  // namespace core::cpu

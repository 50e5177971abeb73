// W x^T for a few rows x and a large W, for one instruction set (CORE_CPU_VARIANT names the namespace): W is read once,
// from where it lies, against a turned copy of x that stays in the cache.
#include "libcore/backend/cpu/gemm_few_rows.h"
#include "libcore/backend/cpu/gemm_small.h"
#include "libcore/backend/cpu/small_variants.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)

constexpr std::int64_t kChunk = 384;  // of k, whose sums are added up first: as oneDNN does, so the bits are its
constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(float));

/// out (n x kVectors vectors) = w (n x k) x (k x kVectors vectors).
struct FewColumns {
  std::int64_t n, k;
  const float* w;
  std::int64_t ldw;
  const float* x;
  float* out;
};

/// The part of k that is summed next, and whether there are sums already.
struct Chunk {
  std::int64_t begin, count;
};

/// The next chunk: no last one is much smaller than the others.
Chunk chunk_at(std::int64_t begin, std::int64_t k) {
  const std::int64_t left = k - begin;
  if (left >= 2 * kChunk) return {begin, kChunk};
  return {begin, left > kChunk ? (left + 1) / 2 : left};
}

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

/// Rows begin .. end of the result.
template <int kVectors, int kRows>
void few_columns_rows(const FewColumns& p, std::int64_t begin, std::int64_t end) {
  Chunk chunk{};
  for (std::int64_t at = 0; at < p.k; at += chunk.count) {
    chunk = chunk_at(at, p.k);
    std::int64_t row = begin;
    for (; row + kRows <= end; row += kRows) {
      const bool more = row + 2 * kRows <= end;
      few_columns_block<kVectors, kRows>(p, chunk, row, p.w + (more ? row + kRows : begin) * p.ldw + at);
    }
    for (; row < end; ++row) few_columns_block<kVectors, 1>(p, chunk, row, p.w + row * p.ldw + at);
  }
}

template <int kVectors, int kRows>
void few_columns_product(const FewColumns& p) {
  const std::int64_t bands = (p.n + kRows - 1) / kRows;
  constexpr std::int64_t kWork = 1 << 19;  // multiplications, below which a thread more costs more than it does
  const std::int64_t grain = 1 + kWork / (p.k * kRows * kVectors * kWidth<float>);
  parallel_for(bands, grain, [&](std::int64_t begin, std::int64_t end) {
    few_columns_rows<kVectors, kRows>(p, begin * kRows, std::min(end * kRows, p.n));
  });
}

/// c (m x n) = t (n x ldt) turned, added to c where `adds`.
void put_turned(const float* t, std::int64_t ldt, const OneProduct& out) {
  constexpr int kW = kWidth<float>;
  const GemmParams& p = out.params;
  for (std::int64_t column = 0; column < p.n; column += kW) {
    const std::int64_t wide = std::min<std::int64_t>(kW, p.n - column);
    for (std::int64_t row = 0; row < p.m; row += kW) {
      const std::int64_t high = std::min<std::int64_t>(kW, p.m - row);
      Vector<float> square[kW];
      for (int i = 0; i < kW; ++i) square[i] = i < wide ? load(t + (column + i) * ldt + row) : Vector<float>{};
      transpose<float>(square);
      for (int i = 0; i < high; ++i) {
        float* c = out.c + (row + i) * p.ldc + column;
        store_up_to(c, out.beta == 0 ? square[i] : square[i] + load_up_to(c, wide), wide);
      }
    }
  }
}

#endif

}  // namespace

bool CORE_CPU_VARIANT::few_rows(const OneProduct& product) {
#if defined(__AVX512F__)
  const GemmParams& p = product.params;
  if (p.alpha != 1 || (product.beta != 0 && product.beta != 1) || p.k == 0) return false;
  constexpr int kW = kWidth<float>;
  const std::int64_t columns = (p.m + kW - 1) / kW * kW;
  const CallMemory x(p.k * columns), out(p.n * columns);
  if (columns != p.m) std::fill_n(x.data(), p.k * columns, 0.0F);
  turned(product.a, p.lda, p.m, p.k, x.data(), columns);
  const FewColumns parts{.n = p.n, .k = p.k, .w = product.b, .ldw = p.ldb, .x = x.data(), .out = out.data()};
  switch (columns / kW) {
    case 1:
      few_columns_product<1, 16>(parts);
      break;
    case 2:
      few_columns_product<2, 12>(parts);
      break;
    case 3:
      few_columns_product<3, 8>(parts);
      break;
    default:
      return false;
  }
  put_turned(out.data(), columns, product);
  return true;
#else
  static_cast<void>(product);
  return false;
#endif
}

}  // namespace core::cpu

// x W^T of middle size for one instruction set (CORE_CPU_VARIANT names the namespace): W is packed turned, strip by
// strip, of as many columns as the registers hold sums for, and x is read from where it lies. From some hundred rows on
// that is less than turning x and all results (few_rows_wide.cpp): 256 rows of 512 by 128 take 195 us, 232 there and
// 205 in oneDNN 2.6, 147 if they did nothing but multiply (Sapphire Rapids).
#include <algorithm>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/gemm/parts.h"
#include "libcore/backend/cpu/gemm/small.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)

constexpr std::int64_t kAcross = kWidth<float>;

/// Some columns of b, packed: k lines of `vectors`.
struct Strip {
  const OneProduct& product;
  const float* packed;
  std::int64_t column, columns;
};

template <int kVectors, int kRows>
CORE_INLINE void put_sums(const Strip& s, Vector<float> (&sums)[kRows][kVectors], std::int64_t row,
                          const Chunk& chunk) {
  const GemmParams& p = s.product.params;
  const bool adds = chunk.begin > 0 || s.product.beta != 0, ends = chunk.begin + chunk.count == p.k;
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = s.column + v * kAcross, here = s.columns - v * kAcross;
    Vector<float> bias{};
    if (ends && p.bias != nullptr) bias = load_up_to(static_cast<const float*>(p.bias) + column, here);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* c = s.product.c + (row + r) * p.ldc + column;
      Vector<float> sum = sums[r][v];
      if (adds) sum = sum + load_up_to(c, here);
      if (ends && p.bias != nullptr) sum = sum + bias;
      store_up_to(c, sum, here);
    }
  }
}

/// kRows rows of a chunk.
template <int kVectors, int kRows>
CORE_INLINE void strip_block(const Strip& s, std::int64_t row, const Chunk& chunk) {
  Vector<float> sums[kRows][kVectors] = {};
  const std::int64_t lda = s.product.params.lda;
  const float* a = s.product.a + row * lda + chunk.begin;
  const float* b = s.packed + chunk.begin * kVectors * kAcross;
  for (std::int64_t i = 0; i < chunk.count; ++i, b += kVectors * kAcross) {
    Vector<float> line[kVectors];
    for (int v = 0; v < kVectors; ++v) line[v] = load(b + v * kAcross);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float factor = a[r * lda + i];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * line[v];
    }
  }
  put_sums<kVectors, kRows>(s, sums, row, chunk);
}

/// Rows begin .. end - 1 of a chunk, kRows at a time.
template <int kVectors, int kRows>
void strip_rows(const Strip& s, std::int64_t begin, std::int64_t end, const Chunk& chunk) {
  for (; begin + kRows <= end; begin += kRows) strip_block<kVectors, kRows>(s, begin, chunk);
  for (; begin + 4 <= end; begin += 4) strip_block<kVectors, 4>(s, begin, chunk);
  for (; begin < end; ++begin) strip_block<kVectors, 1>(s, begin, chunk);
}

/// Rows that are summed at once: 16, 24 and 24 sums of 32 registers.
void strip_of(std::int64_t vectors, const Strip& s, std::int64_t begin, std::int64_t end, const Chunk& chunk) {
  if (vectors == 1) return strip_rows<1, 16>(s, begin, end, chunk);
  if (vectors == 2) return strip_rows<2, 12>(s, begin, end, chunk);
  strip_rows<3, 8>(s, begin, end, chunk);
}

/// Packs a part of b, turned; what fills its last vector up is 0.
void pack_strip(const OneProduct& product, std::int64_t first, std::int64_t vectors, float* to) {
  const GemmParams& p = product.params;
  const std::int64_t apart = vectors * kAcross;
  for (std::int64_t v = 0; v < vectors; ++v, to += kAcross) {
    const std::int64_t column = (first + v) * kAcross, here = std::min(kAcross, p.n - column);
    for (std::int64_t i = 0; here < kAcross && i < p.k; ++i) store(to + i * apart, Vector<float>{});
    turned(product.b + column * p.ldb, p.ldb, here, p.k, to, apart);
  }
}

/// All three stay in the second cache: there b is packed once, and each strip finds a again.
bool is_for_strips(const OneProduct& product) {
  constexpr std::int64_t kFewestRows = 128, kFewestColumns = 32, kFewest = 16, kMost = 3 << 17;  // floats: 1.5 MiB
  const GemmParams& p = product.params;
  return p.alpha == 1 && (product.beta == 0 || product.beta == 1) && !p.transpose_a && p.transpose_b &&
         p.m >= kFewestRows && p.n >= kFewestColumns && p.k >= kFewest && p.m * p.k + p.k * p.n + p.m * p.n <= kMost;
}

void multiply_strips(const OneProduct& product, std::int64_t vectors, const float* packed, std::int64_t begin,
                     std::int64_t end) {
  const GemmParams& p = product.params;
  for_each_part(vectors, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t column = first * kAcross;
    const Strip strip{product, packed + column * p.k, column, std::min(count * kAcross, p.n - column)};
    Chunk chunk{};
    for (std::int64_t at = 0; at < p.k; at += chunk.count) {
      chunk = chunk_at(at, p.k);
      strip_of(count, strip, begin, end, chunk);
    }
  });
}

#endif

}  // namespace

bool CORE_CPU_VARIANT::strip_product(const OneProduct& product) {
#if defined(__AVX512F__)
  if (!is_for_strips(product)) return false;
  constexpr std::int64_t kWork = 1 << 19;  // multiplications that are worth a thread's start
  constexpr std::int64_t kBand = 24;       // rows of a piece of work: fits the kernels' rows
  const GemmParams& p = product.params;
  const std::int64_t vectors = (p.n + kAcross - 1) / kAcross, bands = (p.m + kBand - 1) / kBand;
  const CallMemory packed(p.k * vectors * kAcross);
  for_each_part(vectors, [&](std::int64_t first, std::int64_t count) {
    pack_strip(product, first, count, packed.data() + first * kAcross * p.k);
  });
  parallel_for(bands, 1 + kWork / (kBand * p.n * p.k), [&](std::int64_t begin, std::int64_t end) {
    multiply_strips(product, vectors, packed.data(), begin * kBand, std::min(end * kBand, p.m));
  });
  return true;
#else
  static_cast<void>(product);
  return false;
#endif
}

}  // namespace core::cpu

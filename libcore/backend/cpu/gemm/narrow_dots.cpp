// Dot products of a few rows of f32 with many rows of 16 bits, for one instruction set: these are read once and widened
// in registers, so that a product bound by memory takes half the time of one of f32.
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)

constexpr std::int64_t kVector = kWidth<float>;

/// Up to sixteen numbers, zeros behind them.
template <DType kType>
CORE_INLINE Vector<float> widened(const std::uint16_t* from, std::int64_t count) {
  const auto mask = static_cast<__mmask16>(count >= kVector ? 0xffffU : (1U << count) - 1);
  const __m256i words = _mm256_maskz_loadu_epi16(mask, from);
  if constexpr (kType == DType::f16) return (Vector<float>)_mm512_maskz_cvtph_ps(mask, words);
  return (Vector<float>)_mm512_maskz_slli_epi32(mask, _mm512_maskz_cvtepu16_epi32(mask, words), 16);
}

CORE_INLINE float sum_of(const Vector<float>& v) {
  const Vector<float, 8> eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                                 __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const Vector<float, 4> four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[1]) + (four[2] + four[3]);
}

/// kRows rows of x by kColumns rows of b. Sums of several vectors side by side hide what an addition waits.
template <DType kType, int kRows, int kColumns>
CORE_INLINE void block(const NarrowDots& p, std::int64_t row, std::int64_t column) {
  Vector<float> sums[kRows][kColumns] = {};
  const float* x = p.x + row * p.k;
  const std::uint16_t* b = static_cast<const std::uint16_t*>(p.b) + column * p.ldb;
  for (std::int64_t i = 0; i < p.k; i += kVector) {
    const std::int64_t left = p.k - i;
    Vector<float> line[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) line[r] = load_up_to(x + r * p.k + i, left);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const Vector<float> w = widened<kType>(b + c * p.ldb + i, left);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][c] += line[r] * w;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const float bias = p.bias != nullptr ? p.bias[column + c] : 0.0F;
      p.out[(row + r) * p.n + column + c] = sum_of(sums[r][c]) + bias;
    }
  }
}

template <DType kType, int kRows>
void columns(const NarrowDots& p, std::int64_t row, std::int64_t begin, std::int64_t end) {
  constexpr int kColumns = kRows == 1 ? 8 : 4;
  std::int64_t column = begin;
  for (; column + kColumns <= end; column += kColumns) block<kType, kRows, kColumns>(p, row, column);
  for (; column < end; ++column) block<kType, kRows, 1>(p, row, column);
}

/// Some rows of b at a time, which stay in the first cache for all rows of x.
template <DType kType>
void dots(const NarrowDots& p) {
  constexpr std::int64_t kSome = 8;
  for (std::int64_t begin = p.begin; begin < p.end; begin += kSome) {
    const std::int64_t end = std::min(begin + kSome, p.end);
    std::int64_t row = 0;
    for (; row + 4 <= p.m; row += 4) columns<kType, 4>(p, row, begin, end);
    if (p.m - row >= 2) columns<kType, 2>(p, row, begin, end), row += 2;
    if (row < p.m) columns<kType, 1>(p, row, begin, end);
  }
}

#endif

}  // namespace

void CORE_CPU_VARIANT::narrow_dots(const NarrowDots& p) {
#if defined(__AVX512F__)
  p.type == DType::f16 ? dots<DType::f16>(p) : dots<DType::bf16>(p);
#else
  static_cast<void>(p);
#endif
}

}  // namespace core::cpu

#pragma once
// Products with a transposed matrix of few columns: sixteen of its rows at a time are turned in registers, so that each
// element of a, times a vector of sixteen results, needs no sum across a vector. For short rows, where such sums are
// what dot products spend their time on. AVX-512 alone, which has the registers for it.
// In an anonymous namespace on purpose: see vector.h. Thread safety: pure functions. Included by kernels only.
// Use: if (turns_in_registers(p)) turned_dots(p);

#include <cstdint>

#include "libcore/backend/cpu/gemm/small.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)

constexpr int kTurned = 8;  // elements of each row that are turned at once

/// Shuffles of GCC's header, whose unmasked forms it warns of.
CORE_INLINE __m512 lower_pairs(__m512 a, __m512 b) {
  return _mm512_maskz_unpacklo_ps(0xffff, a, b);
}
CORE_INLINE __m512 upper_pairs(__m512 a, __m512 b) {
  return _mm512_maskz_unpackhi_ps(0xffff, a, b);
}
template <int kWhich>
CORE_INLINE __m512 two_of_four(__m512 a, __m512 b) {
  return _mm512_maskz_shuffle_ps(0xffff, a, b, kWhich);
}
template <int kWhich>
CORE_INLINE __m512 two_lanes(__m512 a, __m512 b) {
  return _mm512_maskz_shuffle_f32x4(0xffff, a, b, kWhich);
}

/// Element `at` and the seven behind it, as far as there are `count`, of rows `first` and `first` + 4.
template <bool kWhole>
CORE_INLINE __m512 two_rows(const float* const (&rows)[16], int first, std::int64_t at, int count) {
  const auto eight = [&](int row) {
    if constexpr (kWhole) return _mm256_loadu_ps(rows[row] + at);
    return _mm256_maskz_loadu_ps(static_cast<__mmask8>((1U << count) - 1), rows[row] + at);
  };
  return _mm512_mask_broadcast_f32x8(_mm512_maskz_broadcast_f32x8(0xffff, eight(first)), 0xff00, eight(first + 4));
}

/// columns[i]: element at + i of each of sixteen rows.
template <bool kWhole>
CORE_INLINE void turn_rows(const float* const (&rows)[16], std::int64_t at, int count, __m512 (&columns)[kTurned]) {
  __m512 fours[kTurned];  // of rows 0 to 7, then of 8 to 15: elements i and i + 4 of four rows, of the next four
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    __m512 lines[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) lines[k] = two_rows<kWhole>(rows, 8 * i + k, at, count);
    const __m512 a = lower_pairs(lines[0], lines[1]), b = upper_pairs(lines[0], lines[1]);
    const __m512 c = lower_pairs(lines[2], lines[3]), d = upper_pairs(lines[2], lines[3]);
    fours[4 * i] = two_of_four<0x44>(a, c), fours[4 * i + 1] = two_of_four<0xee>(a, c);
    fours[4 * i + 2] = two_of_four<0x44>(b, d), fours[4 * i + 3] = two_of_four<0xee>(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    columns[i] = two_lanes<0x88>(fours[i], fours[i + 4]);
    columns[i + 4] = two_lanes<0xdd>(fours[i], fours[i + 4]);
  }
}

/// Adds the products with elements [at, at + count) of the rows of b.
template <int kRows, bool kWhole>
CORE_INLINE void add_turned(const SmallProduct<float>& p, const float* a, const float* const (&b)[16], std::int64_t at,
                            int count, Vector<float> (&sums)[kRows]) {
  __m512 columns[kTurned];
  turn_rows<kWhole>(b, at, count, columns);
#pragma GCC unroll 8
  for (int k = 0; k < kTurned; ++k) {
    if (!kWhole && k >= count) break;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] += a[r * p.a_row + at + k] * (Vector<float>)columns[k];
  }
}

/// kRows rows of the result, sixteen columns of it.
template <int kRows>
CORE_INLINE void turned_block(const SmallProduct<float>& p, std::int64_t row, std::int64_t column) {
  const float* b[16];
  for (int c = 0; c < 16; ++c) b[c] = p.b + std::min(column + c, p.n - 1) * p.ldb;
  const float* const a = p.a + row * p.a_row;
  Vector<float> sums[kRows] = {};
  std::int64_t i = 0;
  for (; i + kTurned <= p.k; i += kTurned) add_turned<kRows, true>(p, a, b, i, kTurned, sums);
  if (i < p.k) add_turned<kRows, false>(p, a, b, i, static_cast<int>(p.k - i), sums);
  const std::int64_t left = p.n - column, ldc = p.ldc;
  const bool plain = is_plain(p);
  const float* const bias = p.bias;
  float* c = p.c + row * ldc + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r, c += ldc) put_finished(p, plain, bias, sums[r], c, column, left);
}

template <int kRows>
void turned_band(const SmallProduct<float>& p, std::int64_t row) {
  for (std::int64_t column = 0; column < p.n; column += 16) turned_block<kRows>(p, row, column);
}

/// By sizes alone, so that equal ones are summed in one order. Long rows are worth the sums across vectors at their
/// end.
inline bool turns_in_registers(const SmallProduct<float>& p) {
  return p.m >= 4 && p.n >= 8 && p.k <= (p.m < 8 ? 64 : 128);
}

/// As dots_product.
inline void turned_dots(const SmallProduct<float>& p) {
  static constexpr void (*kBands[])(const SmallProduct<float>&, std::int64_t) = {
      turned_band<1>, turned_band<2>, turned_band<3>, turned_band<4>,
      turned_band<5>, turned_band<6>, turned_band<7>, turned_band<8>};
  for (std::int64_t row = 0; row < p.m; row += 8) kBands[std::min<std::int64_t>(8, p.m - row) - 1](p, row);
}

#else

constexpr bool turns_in_registers(const SmallProduct<float>&) {
  return false;
}
inline void turned_dots(const SmallProduct<float>&) {}

#endif

}  // namespace
}  // namespace core::cpu

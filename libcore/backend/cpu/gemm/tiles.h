#pragma once
// Tiles of bf16 (AMX): one instruction adds 32 products to each of sixteen by sixteen sums. In a tile of the left
// operand a line of 64 bytes is a row of the result with 32 numbers of k; in one of the right operand it is a pair of
// numbers of k for each of sixteen columns. Panels of 32 rows or columns are packed into tiles, and sums are blocks of
// two by two. In an anonymous namespace on purpose: see vector.h. Included by kernels for AVX-512 alone. REQUIRES:
// multiplies_tiles(). Thread safety: pure functions. Use: const TilesInUse in_use; multiply<2, 2>(a, b, steps, true,
// sums);

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu {
namespace {

using Word = std::uint16_t;
using Line = Vector<std::uint32_t>;
constexpr std::int64_t kSide = 16;                   // rows and columns of a tile of sums, lines of any tile
constexpr std::int64_t kDepth = 32;                  // numbers of k in a tile
constexpr std::int64_t kPanel = 2 * kSide;           // rows or columns of the result that are computed at once
constexpr std::int64_t kTileWords = kSide * kDepth;  // of a tile
constexpr std::int64_t kStepWords = 2 * kTileWords;  // of a panel for kDepth numbers of k

inline std::int64_t steps_of(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step;
}
inline __mmask32 first_words(std::int64_t count) {
  return count >= kDepth ? ~__mmask32{0} : (__mmask32{1} << std::max<std::int64_t>(0, count)) - 1;
}

/// Memory for panels, for the time of one call.
class Packed {
 public:
  explicit Packed(std::int64_t words) : memory_(words / 2) {}
  Word* words() const { return reinterpret_cast<Word*>(memory_.data()); }

 private:
  CallMemory memory_;
};

/// One operand: `width` rows or columns of the result, each of k numbers.
struct Operand {
  const Word* data;
  std::int64_t leading, width, k;
  bool k_inside;  ///< the numbers of k lie side by side, and not those of the result
  bool left;      ///< to be brought into tiles of the left operand

  std::int64_t panels() const { return steps_of(width, kPanel); }
  std::int64_t steps() const { return std::max<std::int64_t>(1, steps_of(k, kDepth)); }
  std::int64_t panel_words() const { return steps() * kStepWords; }
  std::int64_t width_of(std::int64_t panel) const { return std::min(kPanel, width - panel * kPanel); }
  Operand part(std::int64_t first, std::int64_t depth) const {
    return {data + first * (k_inside ? 1 : leading), leading, width, depth, k_inside, left};
  }
  const Word* panel(std::int64_t i) const { return data + i * kPanel * (k_inside ? leading : 1); }
};

/// Sixteen rows of 32 numbers of k each, zeros where there are none.
CORE_INLINE void load_rows(const Word* from, std::int64_t leading, std::int64_t rows, std::int64_t k,
                           Line (&lines)[kSide]) {
  const __mmask32 mask = first_words(k);
  for (std::int64_t i = 0; i < kSide; ++i) {
    lines[i] = i < rows ? (Line)_mm512_maskz_loadu_epi16(mask, from + i * leading) : Line{};
  }
}

/// Sixteen pairs of lines of 32 columns each, as pairs of numbers: for the first sixteen columns and for the others.
CORE_INLINE void load_pairs(const Word* from, std::int64_t leading, std::int64_t columns, std::int64_t k,
                            Line (&first)[kSide], Line (&second)[kSide]) {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __mmask32 mask = first_words(columns);
  for (std::int64_t i = 0; i < kSide; ++i) {
    const Word* row = from + 2 * i * leading;
    const __m512i a = 2 * i < k ? _mm512_maskz_loadu_epi16(mask, row) : _mm512_setzero_si512();
    const __m512i b = 2 * i + 1 < k ? _mm512_maskz_loadu_epi16(mask, row + leading) : _mm512_setzero_si512();
    const __m512i even = _mm512_unpacklo_epi16(a, b), odd = _mm512_unpackhi_epi16(a, b);
    first[i] = (Line)_mm512_permutex2var_epi64(even, low, odd);
    second[i] = (Line)_mm512_permutex2var_epi64(even, high, odd);
  }
}

CORE_INLINE void put_tile(Line (&lines)[kSide], bool turn, Word* to) {
  if (turn) transpose<std::uint32_t>(lines);
  for (std::int64_t i = 0; i < kSide; ++i) store(to + i * kDepth, lines[i]);
}

/// A panel whose numbers of k lie side by side.
inline void pack_along_k(const Operand& operand, std::int64_t number, Word* to) {
  const std::int64_t width = operand.width_of(number);
  if (operand.left) {
    for (std::int64_t row = 0; row < kPanel; ++row) {
      const Word* from = operand.panel(number) + row * operand.leading;
      Word* line = to + row * kDepth;
      for (std::int64_t left = operand.k; left > 0; left -= kDepth, from += kDepth, line += kStepWords) {
        _mm512_store_si512(line,
                           row < width ? _mm512_maskz_loadu_epi16(first_words(left), from) : _mm512_setzero_si512());
      }
    }
    return;
  }
  for (std::int64_t half = 0; half < kPanel; half += kSide, to += kTileWords) {
    const Word* from = operand.panel(number) + half * operand.leading;
    Word* tile = to;
    for (std::int64_t left = operand.k; left > 0; left -= kDepth, from += kDepth, tile += kStepWords) {
      Line lines[kSide];
      load_rows(from, operand.leading, width - half, left, lines);
      put_tile(lines, true, tile);
    }
  }
}

/// Panels first to last - 1 in tiles, two for each kDepth numbers of k. Memory is read in the order in which it lies
/// wherever that is possible: a processor fetches ahead in lines, not across rows.
inline void pack_panels(const Operand& operand, std::int64_t first, std::int64_t last, Word* to) {
  if (operand.k_inside) {
    for (std::int64_t i = first; i < last; ++i, to += operand.panel_words()) pack_along_k(operand, i, to);
    return;
  }
  for (std::int64_t at = 0; at < operand.k; at += kDepth, to += kStepWords) {
    for (std::int64_t i = first; i < last; ++i) {
      Line low[kSide], high[kSide];
      load_pairs(operand.panel(i) + at * operand.leading, operand.leading, operand.width_of(i), operand.k - at, low,
                 high);
      Word* tiles = to + (i - first) * operand.panel_words();
      put_tile(low, operand.left, tiles);
      put_tile(high, operand.left, tiles + kTileWords);
    }
  }
}

/// What was stored before is read by an instruction of which the compiler does not know that it reads memory.
CORE_INLINE void finish_stores() {
  asm volatile("" ::: "memory");
}

/// Sums of a panel by a panel: up to two by two tiles, those of the first rows before the others.
constexpr std::int64_t kTileSums = kSide * kSide, kBlockSums = 4 * kTileSums;
constexpr int kSumsLine = kSide * sizeof(float), kWordsLine = kDepth * sizeof(Word);

/// Adds products of `steps` times kDepth numbers of k to kRows by kColumns tiles of sums, which start with 0.
template <int kRows, int kColumns>
void multiply(const Word* a, const Word* b, std::int64_t steps, bool starts, float* sums) {
  finish_stores();
  if (starts) {
    _tile_zero(0);
    if constexpr (kColumns == 2) _tile_zero(1);
    if constexpr (kRows == 2) _tile_zero(2);
    if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kSumsLine);
    if constexpr (kColumns == 2) _tile_loadd(1, sums + kTileSums, kSumsLine);
    if constexpr (kRows == 2) _tile_loadd(2, sums + 2 * kTileSums, kSumsLine);
    if constexpr (kRows == 2 && kColumns == 2) _tile_loadd(3, sums + 3 * kTileSums, kSumsLine);
  }
  for (std::int64_t i = 0; i < steps; ++i, a += kStepWords, b += kStepWords) {
    _tile_loadd(6, b, kWordsLine);
    _tile_loadd(4, a, kWordsLine);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, b + kTileWords, kWordsLine);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, a + kTileWords, kWordsLine);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kSumsLine);
  if constexpr (kColumns == 2) _tile_stored(1, sums + kTileSums, kSumsLine);
  if constexpr (kRows == 2) _tile_stored(2, sums + 2 * kTileSums, kSumsLine);
  if constexpr (kRows == 2 && kColumns == 2) _tile_stored(3, sums + 3 * kTileSums, kSumsLine);
}

using Multiply = void (*)(const Word* a, const Word* b, std::int64_t steps, bool starts, float* sums);
inline Multiply multiply_for(std::int64_t rows, std::int64_t columns) {
  if (rows > kSide) return columns > kSide ? multiply<2, 2> : multiply<2, 1>;
  return columns > kSide ? multiply<1, 2> : multiply<1, 1>;
}

/// The sums of 32 rows that lie in memory, `leading` apart, by a packed panel of up to kColumns * 16 columns. REQUIRES:
/// rows of whole steps.
template <int kColumns>
void multiply_rows(const Word* rows, std::int64_t leading, const Word* b, std::int64_t steps, float* sums) {
  finish_stores();
  const auto line = static_cast<std::int64_t>(sizeof(Word)) * leading;
  _tile_zero(0);
  _tile_zero(2);
  if constexpr (kColumns == 2) {
    _tile_zero(1);
    _tile_zero(3);
  }
  for (std::int64_t i = 0; i < steps; ++i, rows += kDepth, b += kStepWords) {
    _tile_loadd(4, rows, line);
    _tile_loadd(5, rows + kSide * leading, line);
    _tile_loadd(6, b, kWordsLine);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, b + kTileWords, kWordsLine);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kSumsLine);
  _tile_stored(2, sums + 2 * kTileSums, kSumsLine);
  if constexpr (kColumns == 2) {
    _tile_stored(1, sums + kTileSums, kSumsLine);
    _tile_stored(3, sums + 3 * kTileSums, kSumsLine);
  }
}

/// Where a block of sums has half a row: sixteen numbers.
CORE_INLINE std::int64_t line_at(std::int64_t row, std::int64_t half) {
  return (row / kSide * 2 + half) * kTileSums + row % kSide * kSide;
}

/// Turns each tile, and the two that are not on the diagonal change places.
inline void turn(float* sums) {
  for (int tile = 0; tile < 4; ++tile) {
    Floats lines[kSide];
    for (int i = 0; i < kSide; ++i) lines[i] = load<Floats>(sums + (tile * kSide + i) * kSide);
    transpose<float>(lines);
    for (int i = 0; i < kSide; ++i) store(sums + (tile * kSide + i) * kSide, lines[i]);
  }
  for (int i = 0; i < kTileSums; i += kSide) {
    const Floats first = load<Floats>(sums + kTileSums + i), second = load<Floats>(sums + 2 * kTileSums + i);
    store(sums + kTileSums + i, second);
    store(sums + 2 * kTileSums + i, first);
  }
}

CORE_INLINE Floats widened(__mmask16 mask, const Word* from) {
  return (Floats)_mm512_maskz_slli_epi32(mask, _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, from)),
                                         16);
}

/// The eight tiles of a thread for the time of this value: other threads and libraries expect none to be in use.
class TilesInUse {
 public:
  TilesInUse() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_of_line[16] = {};
      std::uint8_t lines[16] = {};
    } shapes;
    for (int tile = 0; tile < 8; ++tile) shapes.bytes_of_line[tile] = 64, shapes.lines[tile] = kSide;
    asm volatile("" ::"r"(&shapes) : "memory");  // as finish_stores()
    _tile_loadconfig(&shapes);
  }
  ~TilesInUse() { _tile_release(); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

}  // namespace
}  // namespace core::cpu

// Products by tiles. In a tile of the left operand a line of 64 bytes is a row of the result with 32 numbers of k; in
// one of the right operand it is a pair of numbers of k for each of sixteen columns. Either matrix, or the transpose of
// both, can be the left one: what has to be turned for that decides. The smaller matrix is brought into tiles as a
// whole ("resident": it stays in the second cache), the other one panel by panel ("passing").
#include "libcore/backend/cpu/gemm/tile_product.h"

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

using Word = std::uint16_t;
using Line = Vector<std::uint32_t>;
constexpr std::int64_t kSide = 16;                   // rows and columns of a tile of sums, lines of any tile
constexpr std::int64_t kDepth = 32;                  // numbers of k in a tile
constexpr std::int64_t kPanel = 2 * kSide;           // rows or columns of the result that are computed at once
constexpr std::int64_t kTileWords = kSide * kDepth;  // of a tile
constexpr std::int64_t kStepWords = 2 * kTileWords;  // of a panel for kDepth numbers of k
constexpr std::int64_t kResidentWords = std::int64_t{1} << 19;  // half of a second cache of 2 MiB
constexpr std::int64_t kGroupWords = kResidentWords / 2;        // of passing panels that are packed at once
constexpr std::int64_t kMostGroup = 4;                          // of these panels
constexpr std::int64_t kPartOfK = 1024;          // where not all of k of the smaller matrix stays in the cache
constexpr std::int64_t kTogether = 2;            // blocks of sums beside each other
constexpr std::int64_t kStepsAtOnce = 8;         // of kDepth: 16 KiB of a panel
constexpr std::int64_t kWorkOfThread = 1 << 21;  // multiplications that are worth a thread's start

std::int64_t steps_of(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step;
}
__mmask32 first_words(std::int64_t count) {
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
void pack_along_k(const Operand& operand, std::int64_t number, Word* to) {
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
void pack_panels(const Operand& operand, std::int64_t first, std::int64_t last, Word* to) {
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
Multiply multiply_for(std::int64_t rows, std::int64_t columns) {
  if (rows > kSide) return columns > kSide ? multiply<2, 2> : multiply<2, 1>;
  return columns > kSide ? multiply<1, 2> : multiply<1, 1>;
}

/// Turns each tile, and the two that are not on the diagonal change places.
void turn(float* sums) {
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

/// Sums with scale, bias and what was there, rounded to where they belong.
void write(const GemmParams& p, const float* sums, Word* c, std::int64_t row, std::int64_t column) {
  const std::int64_t rows = std::min(kPanel, p.m - row), columns = std::min(kPanel, p.n - column);
  const __mmask32 mask = first_words(columns);
  const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> kSide);
  const auto* bias = static_cast<const Word*>(p.bias);
  Floats start[2] = {};
  if (bias != nullptr) start[0] = widened(low, bias + column), start[1] = widened(high, bias + column + kSide);
  const Floats alpha = all_as<Floats>(static_cast<float>(p.alpha)), beta = all_as<Floats>(static_cast<float>(p.beta));
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = sums + i / kSide * 2 * kTileSums + i % kSide * kSide;
    Word* to = c + (row + i) * p.ldc + column;
    Floats first = load<Floats>(from) * alpha + start[0], second = load<Floats>(from + kTileSums) * alpha + start[1];
    if (p.beta != 0) first += widened(low, to) * beta, second += widened(high, to + kSide) * beta;
    _mm512_mask_storeu_epi16(to, mask, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
  }
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

/// Panels first to last - 1 of an operand, in tiles.
struct Panels {
  const Operand& operand;
  std::int64_t first, last;
  const Word* tiles;
  const Word* tiles_of(std::int64_t panel) const { return tiles + (panel - first) * operand.panel_words(); }
};

/// Blocks of sums, or none.
class Blocks {
 public:
  explicit Blocks(std::int64_t count) : memory_(count * kBlockSums), count_(count) {}
  float* sums() const { return count_ == 0 ? nullptr : memory_.data(); }

 private:
  CallMemory memory_;
  std::int64_t count_;
};

/// One product of a batch as tiles see it.
class Product {
 public:
  Product(const GemmParams& p, const Word* a, const Word* b, Word* c)
      : p_(p),
        turned_(turns_less_turned(p)),
        a_{a, p.lda, p.m, p.k, !p.transpose_a, !turned_},
        b_{b, p.ldb, p.n, p.k, p.transpose_b, turned_},
        c_(c),
        a_passes_(p.m >= p.n) {}

  void compute() const {
    const bool fits = resident().width * p_.k <= kResidentWords;
    const std::int64_t depth = fits ? p_.k : kPartOfK;
    const Blocks parts(depth < p_.k ? a_.panels() * b_.panels() : 0);
    for (std::int64_t first = 0; first < p_.k; first += depth) {
      Product(*this, first, std::min(depth, p_.k - first), parts.sums()).compute_part();
    }
  }

 private:
  /// Whether fewer numbers have to be turned for the transpose of the result, the result too.
  static bool turns_less_turned(const GemmParams& p) {
    const std::int64_t a = p.m * p.k, b = p.n * p.k;
    const std::int64_t plain = (p.transpose_a ? a : 0) + (p.transpose_b ? b : 0);
    return (p.transpose_a ? 0 : a) + (p.transpose_b ? 0 : b) + p.m * p.n < plain;
  }
  /// The products of some of the numbers of k, added to those before in `parts`.
  Product(const Product& whole, std::int64_t first, std::int64_t depth, float* parts) : Product(whole) {
    parts_ = parts;
    is_first_ = first == 0, is_last_ = first + depth == p_.k;
    a_ = a_.part(first, depth), b_ = b_.part(first, depth);
  }

  const Operand& resident() const { return a_passes_ ? b_ : a_; }
  const Operand& passing() const { return a_passes_ ? a_ : b_; }

  void compute_part() const {
    const std::int64_t words = resident().panel_words(), panels = resident().panels();
    const std::int64_t at_once = std::clamp<std::int64_t>(kResidentWords / words, 1, panels);
    const Packed memory(at_once * words);
    for (std::int64_t first = 0; first < panels; first += at_once) {
      compute_with(packed(resident(), first, std::min(first + at_once, panels), memory.words()));
    }
  }

  static Panels packed(const Operand& operand, std::int64_t first, std::int64_t last, Word* to) {
    constexpr std::int64_t kGrain = 1 << 16;  // words that are worth a thread's start
    const std::int64_t words = operand.panel_words();
    parallel_for(last - first, 1 + kGrain / words, [&](std::int64_t begin, std::int64_t end) {
      pack_panels(operand, first + begin, first + end, to + begin * words);
    });
    return {operand, first, last, to};
  }

  /// Some resident panels with all passing ones.
  void compute_with(const Panels& resident) const {
    const std::int64_t words = passing().panel_words();
    const std::int64_t work = words * (resident.last - resident.first) * kPanel;
    parallel_for(passing().panels(), 1 + kWorkOfThread / work, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t group = std::clamp<std::int64_t>(kGroupWords / words, 1, std::min(kMostGroup, end - begin));
      const Packed memory(group * words);
      const TilesInUse in_use;
      for (std::int64_t first = begin; first < end; first += group) {
        const std::int64_t last = std::min(first + group, end);
        pack_panels(passing(), first, last, memory.words());
        const Panels some{passing(), first, last, memory.words()};
        a_passes_ ? compute_blocks(some, resident) : compute_blocks(resident, some);
      }
    });
  }

  /// Row by row, because that is how the result lies in memory.
  void compute_blocks(const Panels& rows, const Panels& columns) const {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      for (std::int64_t column = columns.first; column < columns.last; column += kTogether) {
        compute_blocks(rows, row, columns, column, std::min(column + kTogether, columns.last));
      }
    }
  }

  /// One or two blocks beside each other: a part of k at a time, for which all panels stay in the first cache.
  void compute_blocks(const Panels& rows, std::int64_t row, const Panels& columns, std::int64_t first,
                      std::int64_t last) const {
    alignas(64) float whole[kTogether * kBlockSums];
    float* sums = parts_ == nullptr ? whole : parts_ + (row * b_.panels() + first) * kBlockSums;
    if (is_last_) fetch_output(row, first, last);
    const std::int64_t steps = a_.steps();
    for (std::int64_t step = 0; step < steps; step += kStepsAtOnce) {
      const Word* a = rows.tiles_of(row) + step * kStepWords;
      for (std::int64_t column = first; column < last; ++column) {
        const Word* b = columns.tiles_of(column) + step * kStepWords;
        const auto multiply = turned_ ? multiply_for(b_.width_of(column), a_.width_of(row))
                                      : multiply_for(a_.width_of(row), b_.width_of(column));
        multiply(turned_ ? b : a, turned_ ? a : b, std::min(kStepsAtOnce, steps - step), step == 0 && is_first_,
                 sums + (column - first) * kBlockSums);
      }
    }
    for (std::int64_t column = first; is_last_ && column < last; ++column) {
      float* of = sums + (column - first) * kBlockSums;
      if (turned_) turn(of);
      write(p_, of, c_, row * kPanel, column * kPanel);
    }
  }

  /// Asks for where sums will be written.
  void fetch_output(std::int64_t row, std::int64_t first, std::int64_t last) const {
    const Word* line = c_ + row * kPanel * p_.ldc;
    for (std::int64_t i = a_.width_of(row); i > 0; --i, line += p_.ldc) {
      for (std::int64_t column = first; column < last; ++column) __builtin_prefetch(line + column * kPanel, 1);
    }
  }

  const GemmParams& p_;
  bool turned_;  // the left operand of tiles is b: sums are those of the transpose
  Operand a_, b_;
  Word* c_;
  bool a_passes_;
  float* parts_ = nullptr;  // sums of all blocks, row by row, between parts of k
  bool is_first_ = true, is_last_ = true;
};

}  // namespace

void tile_product(const GemmParams& p) {
  const auto one = [&](std::int64_t i) {
    const auto *a = static_cast<const Word*>(p.a) + i * p.batch_stride_a,
               *b = static_cast<const Word*>(p.b) + i * p.batch_stride_b;
    Product(p, a, b, static_cast<Word*>(p.c) + i * p.batch_stride_c).compute();
  };
  const std::int64_t work = std::max<std::int64_t>(1, p.k) * p.m * p.n;
  if (work == 0) return;
  if (p.batch == 1) return one(0);
  parallel_for(p.batch, 1 + kWorkOfThread / work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) one(i);
  });
}

}  // namespace core::cpu::CORE_CPU_VARIANT

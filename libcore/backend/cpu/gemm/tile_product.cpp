// Products by tiles. Either matrix, or the transpose of both, can be the left one: what has to be turned for that
// decides. The smaller matrix is brought into tiles as a whole ("resident": it stays in the second cache), the other
// one panel by panel ("passing").
#include "libcore/backend/cpu/gemm/tile_product.h"

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/gemm/tiles.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kResidentWords = std::int64_t{1} << 19;  // half of a second cache of 2 MiB
constexpr std::int64_t kGroupWords = kResidentWords / 2;        // of passing panels that are packed at once
constexpr std::int64_t kMostGroup = 4;                          // of these panels
constexpr std::int64_t kPartOfK = 1024;          // where not all of k of the smaller matrix stays in the cache
constexpr std::int64_t kTogether = 2;            // blocks of sums beside each other
constexpr std::int64_t kStepsAtOnce = 8;         // of kDepth: 16 KiB of a panel
constexpr std::int64_t kWorkOfThread = 1 << 21;  // multiplications that are worth a thread's start

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

// x W^T of a few rows x and a small W, where the call is what takes the time: nothing is allocated, and W is read from
// where it lies.

/// A row as dot products of pairs. 1 row of 64 by 64 took 339 ns with W widened to f32, and 217 so; 2 rows take as long
/// as by tiles.
void row_by_pairs(const GemmParams& p, const Word* x, const Word* w, Word* out) {
  const auto* bias = static_cast<const Word*>(p.bias);
  for (std::int64_t column = 0; column < p.n; column += kSide) {
    Floats sums[kSide] = {};
    for (std::int64_t k = 0; k < p.k; k += kDepth) {
      const __mmask32 mask = first_words(p.k - k);
      const auto line = (__m512bh)_mm512_maskz_loadu_epi16(mask, x + k);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kSide; ++i) {
        const Word* row = w + std::min(column + i, p.n - 1) * p.ldb + k;
        sums[i] = (Floats)_mm512_dpbf16_ps((__m512)sums[i], line, (__m512bh)_mm512_maskz_loadu_epi16(mask, row));
      }
    }
    const auto mask = static_cast<__mmask16>(first_words(std::min(p.n - column, kSide)));
    Floats result = sums_of<float>(sums);
    if (bias != nullptr) result += widened(mask, bias + column);
    _mm256_mask_storeu_epi16(out + column, mask, (__m256i)_mm512_cvtneps_pbh((__m512)result));
  }
}

constexpr std::int64_t kMostPairs = 2;    // rows
constexpr std::int64_t kMostOfRow = 512;  // numbers of k, of which 32 rows take 32 KiB of the stack

/// Up to 32 rows: those of W are tiles as they lie, and x is packed. 8 rows of 64 by 64 took 1,070 ns in f32, and 468
/// so.
void rows_by_tiles(const GemmParams& p, const Word* x, const Word* w, Word* c) {
  alignas(64) Word packed[kMostOfRow / kDepth * kStepWords];
  alignas(64) Word last[kMostOfRow / kDepth * kStepWords];
  alignas(64) float sums[kBlockSums];
  const Operand rows{x, p.lda, p.m, p.k, true, false};
  pack_panels(rows, 0, 1, packed);
  const TilesInUse in_use;
  for (std::int64_t column = 0; column < p.n; column += kPanel) {
    const std::int64_t wide = std::min(kPanel, p.n - column);
    if (wide == kPanel) {
      p.m > kSide ? multiply_rows<2>(w + column * p.ldb, p.ldb, packed, rows.steps(), sums)
                  : multiply_rows<1>(w + column * p.ldb, p.ldb, packed, rows.steps(), sums);
    } else {
      pack_panels({w + column * p.ldb, p.ldb, wide, p.k, true, true}, 0, 1, last);
      multiply_for(wide, p.m)(last, packed, rows.steps(), true, sums);
    }
    turn(sums);
    write(p, sums, c, 0, column);
  }
}

}  // namespace

bool tile_product_of_few_rows(const GemmParams& p) {
  constexpr std::int64_t kMostWeights = 1 << 15;  // numbers of W, which stay in the caches
  const bool fits = p.batch == 1 && !p.transpose_a && p.transpose_b && p.alpha == 1 && p.beta == 0;
  if (!fits || p.m > kPanel || p.m * p.n == 0 || p.n * p.k > kMostWeights) return false;
  const auto *x = static_cast<const Word*>(p.a), *w = static_cast<const Word*>(p.b);
  auto* c = static_cast<Word*>(p.c);
  const bool has_tiles = p.k % kDepth == 0 && p.k > 0 && p.k <= kMostOfRow;
  if (has_tiles && p.m > kMostPairs) {
    if (p.m > kSide && p.k == kDepth) return false;  // most of the time goes into writing
    rows_by_tiles(p, x, w, c);
    return true;
  }
  if (p.m > 2 * kMostPairs) return false;
  for (std::int64_t i = 0; i < p.m; ++i) row_by_pairs(p, x + i * p.lda, w, c + i * p.ldc);
  return true;
}

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

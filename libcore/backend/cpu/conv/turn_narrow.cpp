// Images of 16 bits from planes to pixels and back, as oneDNN's convolutions want them: matrices turned square by
// square in registers. oneDNN's own reorder of 16 bits moves 7 GB/s, less than a convolution of 1 x 1 computes
// meanwhile.
#include <algorithm>
#include <cstdint>

#include "libcore/backend/cpu/conv/turn_narrow.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

using Word = std::uint16_t;
constexpr std::int64_t kSide = kWidth<Word>;
constexpr std::int64_t kGrain = 16;  // squares below which a second thread does not pay

std::int64_t squares_along(std::int64_t length) {
  return (length + kSide - 1) / kSide;
}
__mmask32 mask_of(std::int64_t count) {
  return count >= kSide ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

/// The square at (row, column), which may reach over the border. It asks for the lines of memory behind it, which no
/// processor expects: each row is read in another page.
void turn_square(const Word* from, Word* to, const NarrowTurn& p, std::int64_t row, std::int64_t column) {
  const std::int64_t high = std::min(kSide, p.rows - row), wide = std::min(kSide, p.columns - column);
  const __mmask32 read = mask_of(wide), written = mask_of(high);
  from += row * p.columns + column, to += column * p.rows + row;
  Vector<Word> lines[kSide];
  for (std::int64_t i = 0; i < kSide; ++i) {
    __builtin_prefetch(from + i * p.columns + kSide);
    lines[i] = i < high ? (Vector<Word>)_mm512_maskz_loadu_epi16(read, from + i * p.columns) : Vector<Word>{};
  }
  transpose<Word>(lines);
  for (std::int64_t i = 0; i < wide; ++i) {
    __builtin_prefetch(to + i * p.rows + kSide, 1);
    _mm512_mask_storeu_epi16(to + i * p.rows, written, (__m512i)lines[i]);
  }
}

}  // namespace

void turn_narrow(const NarrowTurn& p) {
  const std::int64_t down = squares_along(p.rows), across = squares_along(p.columns);
  const std::int64_t inner = std::min(down, across);  // the channels: of each pixel they lie side by side
  parallel_for(p.count * down * across, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t matrix = i / (down * across), place = i % (down * across);
      const std::int64_t first = place / inner * kSide, second = place % inner * kSide,
                         at = matrix * p.rows * p.columns;
      turn_square(p.from + at, p.to + at, p, inner == down ? second : first, inner == down ? first : second);
    }
  });
}

}  // namespace core::cpu::CORE_CPU_VARIANT

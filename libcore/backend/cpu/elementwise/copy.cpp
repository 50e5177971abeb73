// Copies between layouts, fills, ranges.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"

namespace core::cpu {
namespace {

struct Wide {
  std::uint64_t words[2];
};

template <class Word>
void move_rows(const CopyParams& p) {
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
    Word* out = static_cast<Word*>(p.out) + at[0];
    const Word* in = static_cast<const Word*>(p.in) + at[1];
    if (so == 1 && si == 1) {
      std::memmove(out, in, static_cast<std::size_t>(n) * sizeof(Word));
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = in[i * si];
    }
  });
}

constexpr std::int64_t kSide = 4;  // of a square that is transposed in registers

/// The dimension along which the input lies dense where the output does along the first one; 0 where there is none.
int turned_dim(const Loop<2>& loop) {
  if (loop.strides[0][0] != 1 || loop.strides[1][0] == 1 || loop.sizes[0] < kSide) return 0;
  for (int d = 1; d < loop.ndim; ++d) {
    if (loop.strides[1][d] == 1 && loop.sizes[d] >= kSide) return d;
  }
  return 0;
}

template <class Word>
struct Square {
  using Row [[gnu::vector_size(kSide * sizeof(Word))]] = Word;
  Row rows[kSide];

  void load(const Word* from, std::int64_t apart) {
    for (std::int64_t i = 0; i < kSide; ++i) std::memcpy(&rows[i], from + i * apart, sizeof(Row));
  }
  void store(Word* to, std::int64_t apart) const {
    for (std::int64_t i = 0; i < kSide; ++i) std::memcpy(to + i * apart, &rows[i], sizeof(Row));
  }
  void transpose() {
    const Row low0 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const Row low1 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const Row high0 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const Row high1 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    rows[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
    rows[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
    rows[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
    rows[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
  }
};

/// Some of the elements along one dimension.
CopyParams part_along(CopyParams p, int dim, std::int64_t first, std::int64_t count, std::int64_t bytes) {
  p.out = static_cast<std::byte*>(p.out) + first * p.loop.strides[0][dim] * bytes;
  p.in = static_cast<const std::byte*>(p.in) + first * p.loop.strides[1][dim] * bytes;
  p.loop.numel = p.loop.numel / p.loop.sizes[dim] * count;
  p.loop.sizes[dim] = count;
  return p;
}

/// Where rows of the input become columns: several columns together, square by square. REQUIRES: whole squares.
template <class Word>
void move_turned(CopyParams p, int dim) {
  const std::int64_t apart = p.loop.strides[0][dim];
  p.loop.numel /= kSide;  // a row of this loop is kSide rows of the output
  p.loop.sizes[dim] /= kSide;
  for (auto& strides : p.loop.strides) strides[dim] *= kSide;
  for_rows(p.loop, kGrain / kSide, [&](const Offsets<2>& at, std::int64_t n) {
    const std::int64_t so = apart, si = p.loop.strides[1][0];
    Word* out = static_cast<Word*>(p.out) + at[0];
    const Word* in = static_cast<const Word*>(p.in) + at[1];
    std::int64_t i = 0;
    for (; i + kSide <= n; i += kSide) {
      Square<Word> square;
      square.load(in + i * si, si);
      square.transpose();
      square.store(out + i, so);
    }
    for (; i < n; ++i) {
      for (std::int64_t column = 0; column < kSide; ++column) out[column * so + i] = in[i * si + column];
    }
  });
}

template <class Word>
void move_kernel(const CopyParams& p) {
  if constexpr (std::is_same_v<Word, std::uint32_t> || std::is_same_v<Word, std::uint64_t>) {
    if (const int dim = turned_dim(p.loop); dim != 0) {
      const std::int64_t count = p.loop.sizes[dim], whole = count / kSide * kSide;
      move_turned<Word>(part_along(p, dim, 0, whole, sizeof(Word)), dim);
      if (whole < count) move_rows<Word>(part_along(p, dim, whole, count - whole, sizeof(Word)));
      return;
    }
  }
  move_rows<Word>(p);
}

template <class Word>
void fill_kernel(const CopyParams& p) {
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    const Word value = *static_cast<const Word*>(p.in);
    const std::int64_t so = p.loop.strides[0][0];
    Word* out = static_cast<Word*>(p.out) + at[0];
    if (so == 1) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = value;
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = value;
    }
  });
}

template <class T>
void range_kernel(const UnaryParams& p) {
  using Number = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  const auto start = static_cast<Number>(p.args[0]);
  const auto step = static_cast<Number>(p.args[1]);
  T* out = static_cast<T*>(p.out);
  parallel_for(p.loop.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(start + static_cast<Number>(i) * step);
  });
}

template <class Word>
void set_moves(CopyTable& table) {
  table.move[sizeof(Word)] = move_kernel<Word>;
  table.fill[sizeof(Word)] = fill_kernel<Word>;
}

template <class... Ts>
void set_ranges(CopyTable& table) {
  ((table.range[static_cast<std::size_t>(dtype_of<Ts>)] = range_kernel<Ts>), ...);
}

}  // namespace

void fill_copies(CopyTable& table) {
  set_moves<std::uint8_t>(table);
  set_moves<std::uint16_t>(table);
  set_moves<std::uint32_t>(table);
  set_moves<std::uint64_t>(table);
  set_moves<Wide>(table);
  set_ranges<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>(table);
}

}  // namespace core::cpu

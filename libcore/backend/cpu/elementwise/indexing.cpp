// Picking and placing by an index tensor.
#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/complex/arithmetic.h"
#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"

namespace core::cpu {
namespace {

/// The first index out of range, in row-major order of the loop; negative ones count as out of range.
bool indices_ok(IndexParams& p) {
  for_rows_in_order(p.loop, [&](const Offsets<3>& at, std::int64_t n) {
    const std::int64_t step = p.loop.strides[2][0];
    for (std::int64_t i = 0; i < (step == 0 ? 1 : n) && !p.failed; ++i) {
      std::int64_t index = p.index[at[2] + i * step];
      if (index >= 0 && index < p.limit) continue;
      p.bad_index = index;
      p.failed = true;
    }
  });
  return !p.failed;
}

template <class Word>
void take_kernel(IndexParams& p) {
  if (!indices_ok(p)) return;
  for_rows(p.loop, kGrain, [&](const Offsets<3>& at, std::int64_t n) {
    const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0], sx = p.loop.strides[2][0], step = p.step;
    Word* out = static_cast<Word*>(p.out) + at[0];
    const Word* in = static_cast<const Word*>(p.in) + at[1];
    const std::int64_t* index = p.index + at[2];
    if (sx == 0 && so == 1 && si == 1) {  // a whole row
      std::memcpy(out, in + *index * step, static_cast<std::size_t>(n) * sizeof(Word));
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) out[i * so] = in[i * si + index[i * sx] * step];
  });
}

template <class T>
T sum_of(const T& a, const T& b) {
  return static_cast<T>(a + b);
}
ComplexHalf sum_of(const ComplexHalf& a, const ComplexHalf& b) {
  return halved(widened(a) + widened(b));
}

/// In order, on one thread: with repeated indices the last one wins, and sums have one order.
template <class T, bool kAdd>
void put_kernel(IndexParams& p) {
  if (!indices_ok(p)) return;
  const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0], sx = p.loop.strides[2][0];
  for_rows_in_order(p.loop, [&](const Offsets<3>& at, std::int64_t n) {
    T* out = static_cast<T*>(p.out) + at[0];
    const T* in = static_cast<const T*>(p.in) + at[1];
    const std::int64_t* index = p.index + at[2];
    for (std::int64_t i = 0; i < n; ++i) {
      T& target = out[i * so + index[i * sx] * p.step];
      if constexpr (kAdd) {
        target = sum_of(target, in[i * si]);
      } else {
        target = in[i * si];
      }
    }
  });
}

template <class Word>
void set_moves(IndexingTable& table) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (bit_width(static_cast<DType>(i)) != static_cast<int>(sizeof(Word)) * 8) continue;
    table.index[static_cast<std::size_t>(IndexOp::take)][static_cast<std::size_t>(i)] = take_kernel<Word>;
    table.index[static_cast<std::size_t>(IndexOp::put)][static_cast<std::size_t>(i)] = put_kernel<Word, false>;
  }
}

template <class... Ts>
void set_sums(IndexingTable& table) {
  ((table.index[static_cast<std::size_t>(IndexOp::accumulate)][static_cast<std::size_t>(dtype_of<Ts>)] =
        put_kernel<Ts, true>),
   ...);
}

}  // namespace

void fill_indexing(IndexingTable& table) {
  set_moves<std::uint8_t>(table);
  set_moves<std::uint16_t>(table);
  set_moves<std::uint32_t>(table);
  set_moves<std::uint64_t>(table);
  set_moves<std::complex<double>>(table);
  set_sums<ComplexHalf, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double,
           std::complex<float>, std::complex<double>>(table);
}

}  // namespace core::cpu

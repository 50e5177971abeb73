// Sums of rows. Compiled once per instruction set, for the conversions of 16 bits.
#include <algorithm>

#include "libcore/backend/cpu/elementwise/row_sums.h"
#include "libcore/backend/cpu/narrow_numbers.h"

namespace core::cpu {
namespace {

/// Rows lie anywhere: without asking for them ahead, sums of 16 bits wait for memory half of the time.
constexpr std::int64_t kAhead = 4;
constexpr std::int64_t kLine = 64;         // bytes that come at once
constexpr std::int64_t kMostAhead = 1024;  // of a row; what is longer comes in order by itself

template <class T>
void add_each(const RowSums& p) {
  const std::int64_t near = std::min<std::int64_t>(p.width * sizeof(T), kMostAhead);
  for (std::int64_t k = 0; k < p.count; ++k) {
    if (k + kAhead < p.count) {
      const auto* next = reinterpret_cast<const char*>(static_cast<const T*>(p.in) + p.from[k + kAhead] * p.width);
      for (std::int64_t i = 0; i < near; i += kLine) __builtin_prefetch(next + i);
    }
    T* out = static_cast<T*>(p.out) + p.to[k] * p.width;
    const T* in = static_cast<const T*>(p.in) + p.from[k] * p.width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < p.width; ++i) out[i] += in[i];
  }
}

}  // namespace

void CORE_CPU_VARIANT::add_rows_of(const RowSums& sums) {
  switch (sums.dtype) {
    case DType::f16:
      return add_each<NarrowHalf>(sums);
    case DType::bf16:
      return add_each<NarrowBFloat16>(sums);
    default:
      return add_each<float>(sums);
  }
}

}  // namespace core::cpu

// where, addcmul, addcdiv, lerp.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/elementwise/rows.h"

namespace core::cpu {
namespace {

/// Of the bits of numbers, by a mask: a branch is taken wrongly every second time where the condition is random.
struct Where : NoArgs {
  using NoArgs::NoArgs;
  template <class Word>
  Word operator()(bool condition, Word a, Word b) const {
    const auto mask = static_cast<Word>(-static_cast<int>(condition));
    return static_cast<Word>((a & mask) | (b & ~mask));
  }
};

template <std::size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t, std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

struct Addcmul {
  double value;
  explicit Addcmul(const double* args) : value(args[0]) {}
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(a + static_cast<T>(value) * b * c);
  }
};
struct Addcdiv {
  double value;
  explicit Addcdiv(const double* args) : value(args[0]) {}
  template <class T>
  T operator()(T a, T b, T c) const {
    return a + static_cast<T>(value) * b / c;
  }
};
/// From the nearer end, so that weights 0 and 1 give the ends exactly.
struct Lerp : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  T operator()(T start, T end, T weight) const {
    return std::abs(weight) < T(0.5) ? start + weight * (end - start) : end - (end - start) * (T(1) - weight);
  }
};

template <class... Ts>
void fill_where(ElementwiseTable& table) {
  (table.ternary.set(TernaryOp::where, dtype_of<Ts>, ternary_kernel<bool, WordOf<sizeof(Ts)>, Where>), ...);
}
template <class... Ts>
void fill_multiply(ElementwiseTable& table) {
  (table.ternary.set(TernaryOp::addcmul, dtype_of<Ts>, ternary_kernel<Ts, Ts, Addcmul>), ...);
}
template <class... Ts>
void fill_divide(ElementwiseTable& table) {
  (table.ternary.set(TernaryOp::addcdiv, dtype_of<Ts>, ternary_kernel<Ts, Ts, Addcdiv>), ...);
  (table.ternary.set(TernaryOp::lerp, dtype_of<Ts>, ternary_kernel<Ts, Ts, Lerp>), ...);
}

}  // namespace

void fill_ternaries(ElementwiseTable& table) {
  fill_where<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, Half, BFloat16, float, double>(
      table);
  fill_multiply<std::int32_t, std::int64_t, float, double>(table);
  fill_divide<float, double>(table);
}

}  // namespace core::cpu

// Rows of numbers of 16 bits as f32, and back. Compiled once per instruction set: there is no instruction for f16 in
// every processor, and what stands for it takes a third of the time in registers twice as wide.
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

template <class T>
void widen(const void* from, std::int64_t count, float* to) {
  const T* in = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = in[i];
}
template <class T>
void round(const float* from, std::int64_t count, void* to) {
  T* out = static_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i] = from[i];
}

template <class From, class To>
void convert(const CopyParams& p) {
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
    To* out = static_cast<To*>(p.out) + at[0];
    const From* in = static_cast<const From*>(p.in) + at[1];
    if (so == 1 && si == 1) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = in[i * si];
    }
  });
}

template <class T>
void set_conversions(CopyTable& table, DType dtype) {
  const auto narrow = static_cast<std::size_t>(dtype), wide = static_cast<std::size_t>(DType::f32);
  table.convert[narrow][wide] = convert<T, float>;
  table.convert[wide][narrow] = convert<float, T>;
}

}  // namespace

void CORE_CPU_VARIANT::widen_row(DType from_type, const void* from, std::int64_t count, float* to) {
  return from_type == DType::f16 ? widen<NarrowHalf>(from, count, to) : widen<NarrowBFloat16>(from, count, to);
}

void CORE_CPU_VARIANT::round_row(DType to_type, const float* from, std::int64_t count, void* to) {
  return to_type == DType::f16 ? round<NarrowHalf>(from, count, to) : round<NarrowBFloat16>(from, count, to);
}

void CORE_CPU_VARIANT::fill_narrow_conversions(CopyTable& table) {
  set_conversions<NarrowHalf>(table, DType::f16);
  set_conversions<NarrowBFloat16>(table, DType::bf16);
}

}  // namespace core::cpu

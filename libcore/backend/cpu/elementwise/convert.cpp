// Copies between dtypes.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/element_types.h"
#include "libcore/base/float8.h"

namespace core::cpu {
namespace {

template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return widen_f16(value.bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return bf16_to_f32(value.bits);
  } else {
    return value;
  }
}

/// As the processor's conversion to int32, without branches.
template <class From>
std::int32_t whole_i32(From value) {
  const bool fits = value >= From(-0x1p31) && value < From(0x1p31);
  return fits ? static_cast<std::int32_t>(fits ? value : From(0)) : INT32_MIN;
}

/// C++'s conversion, made total as PyTorch's is on x86: what int32 cannot hold is INT32_MIN, and so are NaN and what
/// goes to fewer bits, of which it leaves the low ones; uint32 and 64 bits are made by way of int64.
template <class To, class From>
To convert_number(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, Half>) {
    if constexpr (std::is_same_v<From, double>) return {f64_to_f16(value)};
    return {narrow_f16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {narrow_bf16(static_cast<float>(value))};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                       (sizeof(To) < 4 || std::is_same_v<To, std::int32_t>)) {
    return static_cast<To>(whole_i32(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr double kTop = 9223372036854775808.0;
    if (!(value >= static_cast<From>(-kTop) && value < static_cast<From>(kTop))) {
      if (std::is_same_v<To, std::uint64_t> && value >= From(0) && value < From(2) * static_cast<From>(kTop)) {
        return static_cast<To>(value);
      }
      return static_cast<To>(INT64_MIN);
    }
    return static_cast<To>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void convert_kernel(const CopyParams& p) {
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
    To* out = static_cast<To*>(p.out) + at[0];
    const From* in = static_cast<const From*>(p.in) + at[1];
    for (std::int64_t i = 0; i < n; ++i) out[i * so] = convert_number<To>(widen(in[i * si]));
  });
}

template <DType kFrom>
void widen_f8_kernel(const CopyParams& p) {
  for_each(p.loop, kGrain, [&](const Offsets<2>& at) {
    static_cast<float*>(p.out)[at[0]] = f8_to_f32(kFrom, static_cast<const std::uint8_t*>(p.in)[at[1]]);
  });
}

template <DType kTo>
void narrow_f8_kernel(const CopyParams& p) {
  for_each(p.loop, kGrain, [&](const Offsets<2>& at) {
    static_cast<std::uint8_t*>(p.out)[at[0]] = f32_to_f8(kTo, static_cast<const float*>(p.in)[at[1]]);
  });
}

template <class From, class... Tos>
void set_conversions(CopyTable& table, std::tuple<Tos...>*) {
  ((table.convert[static_cast<std::size_t>(dtype_of<From>)][static_cast<std::size_t>(dtype_of<Tos>)] =
        convert_kernel<From, Tos>),
   ...);
}

template <class... Ts>
void set_all_conversions(CopyTable& table) {
  (set_conversions<Ts>(table, static_cast<std::tuple<Ts...>*>(nullptr)), ...);
}

template <DType... kTypes>
void set_f8(CopyTable& table) {
  ((table.convert[static_cast<std::size_t>(kTypes)][static_cast<std::size_t>(DType::f32)] = widen_f8_kernel<kTypes>),
   ...);
  ((table.convert[static_cast<std::size_t>(DType::f32)][static_cast<std::size_t>(kTypes)] = narrow_f8_kernel<kTypes>),
   ...);
}

}  // namespace

void fill_conversions(CopyTable& table) {
  set_all_conversions<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t,
                      std::uint32_t, std::uint64_t, Half, BFloat16, float, double>(table);
  set_f8<DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0fnu>(table);
}

}  // namespace core::cpu

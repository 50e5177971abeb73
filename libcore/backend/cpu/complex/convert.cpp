// Copies from and to complex numbers: a real number becomes the real part, and of a complex number the real part stays;
// as a bool it is whether it is not 0.
#include <complex>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/complex/arithmetic.h"
#include "libcore/backend/cpu/complex/complex_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/narrow_numbers.h"

namespace core::cpu {
namespace {

template <class T>
double wide_real(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return static_cast<double>(widen_f16(value.bits));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<double>(bf16_to_f32(value.bits));
  } else {
    return static_cast<double>(value);
  }
}

template <class Real>
Real narrow_real(double value) {
  if constexpr (std::is_same_v<Real, Half>) {
    return {f64_to_f16(value)};
  } else if constexpr (std::is_same_v<Real, BFloat16>) {
    return {narrow_bf16(static_cast<float>(value))};
  } else if constexpr (std::is_integral_v<Real>) {
    constexpr double kTop = 9223372036854775808.0;
    return static_cast<Real>(value >= -kTop && value < kTop ? static_cast<std::int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<Real>(value);
  }
}

template <class From, class To>
void copy_kernel(const CopyParams& p) {
  for_each(p.loop, kGrain, [&](const Offsets<2>& at) {
    const From& from = static_cast<const From*>(p.in)[at[1]];
    To& to = static_cast<To*>(p.out)[at[0]];
    if constexpr (std::is_same_v<To, bool>) {
      to = from != From(0);
    } else if constexpr (is_complex_number<From> && is_complex_number<To>) {
      to = To(from);
    } else if constexpr (is_complex_number<From>) {
      to = narrow_real<To>(static_cast<double>(from.real()));
    } else {
      to = To(static_cast<typename To::value_type>(wide_real(from)));
    }
  });
}

template <class A, class B>
void set_pair(CopyTable& table) {
  constexpr auto kA = static_cast<std::size_t>(dtype_of<A>), kB = static_cast<std::size_t>(dtype_of<B>);
  table.convert[kA][kB] = copy_kernel<A, B>;
  table.convert[kB][kA] = copy_kernel<B, A>;
}

template <class C, class... Reals>
void set_pairs(CopyTable& table) {
  (set_pair<C, Reals>(table), ...);
}

template <class C>
void set_all(CopyTable& table) {
  set_pairs<C, bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
            std::uint64_t, Half, BFloat16, float, double>(table);
}

/// complex32, through complex64 as in PyTorch, from double too.
template <class T>
void from_half_kernel(const CopyParams& p) {
  for_each(p.loop, kGrain, [&](const Offsets<2>& at) {
    const std::complex<float> from = widened(static_cast<const ComplexHalf*>(p.in)[at[1]]);
    T& to = static_cast<T*>(p.out)[at[0]];
    if constexpr (std::is_same_v<T, bool>) {
      to = from != 0.0F;
    } else if constexpr (is_complex_number<T>) {
      to = T(from);
    } else {
      to = narrow_real<T>(static_cast<double>(from.real()));
    }
  });
}
template <class T>
void to_half_kernel(const CopyParams& p) {
  for_each(p.loop, kGrain, [&](const Offsets<2>& at) {
    const T& from = static_cast<const T*>(p.in)[at[1]];
    ComplexHalf& to = static_cast<ComplexHalf*>(p.out)[at[0]];
    if constexpr (is_complex_number<T>) {
      to = halved(std::complex<float>(from));
    } else {
      to = halved(static_cast<float>(wide_real(from)));
    }
  });
}

template <class... Types>
void set_halves(CopyTable& table) {
  constexpr auto kHalf = static_cast<std::size_t>(DType::c32);
  ((table.convert[kHalf][static_cast<std::size_t>(dtype_of<Types>)] = from_half_kernel<Types>,
    table.convert[static_cast<std::size_t>(dtype_of<Types>)][kHalf] = to_half_kernel<Types>),
   ...);
}

}  // namespace

void fill_complex_conversions(CopyTable& table) {
  set_all<std::complex<float>>(table);
  set_all<std::complex<double>>(table);
  set_pair<std::complex<float>, std::complex<double>>(table);
  set_halves<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
             std::uint64_t, Half, BFloat16, float, double, std::complex<float>, std::complex<double>>(table);
}

}  // namespace core::cpu

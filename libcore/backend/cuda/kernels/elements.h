#pragma once
// What the kernels share: elements in memory and the types they are computed in, several elements at once, and the way
// from the number of an element to where it lies. Thread safety: plain values.
// Use: const Indexer<2> where(p.loop); ... const auto at = where(i); out[at[0]] = narrow<T>(widen(in[at[1]]));

#include <cstdint>
#include <type_traits>

#include "libcore/backend/cuda/kernels/launch.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_params.h"

/// Before a loop that is short or rarely taken: code for several rounds at once would only cost time to compile.
#ifdef __CUDA_ARCH__
#define CORE_NO_UNROLL _Pragma("unroll 1")
#else
#define CORE_NO_UNROLL
#endif

namespace core::CORE_KERNELS {

/// The type that elements of type T are computed in: float for the halves.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class To, class From>
CORE_HD To same_bits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  union {
    From from;
    To to;
  } both = {value};
  return both.to;
}

template <class T>
CORE_HD T widen(T value) {
  return value;
}
CORE_HD inline float widen(Half value) {
#ifdef __CUDA_ARCH__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
#else
  return f16_to_f32(value.bits);
#endif
}
CORE_HD inline float widen(BFloat16 value) {
  return same_bits<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

CORE_HD inline Half to_half(float value) {
#ifdef __CUDA_ARCH__
  Half half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
  return half;
#else
  return {f32_to_f16(value)};
#endif
}
/// With a single rounding.
CORE_HD inline Half to_half(double value) {
#ifdef __CUDA_ARCH__
  Half half;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(half.bits) : "d"(value));
  return half;
#else
  return {f64_to_f16(value)};
#endif
}
/// NaN becomes 0x7fc0.
CORE_HD inline BFloat16 to_bfloat16(float value) {
  const auto bits = same_bits<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fc0};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

/// A computed number as an element.
template <class T>
CORE_HD T narrow(Computed<T> value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

/// V elements side by side, read and written at once.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};

/// 16 bytes moved as one.
struct alignas(16) Wide {
  std::uint64_t words[2];
};

inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Division of numbers below 2^31 by one that is known before the kernel runs: a multiplication and a shift.
/// Source: Granlund, Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
class Divider {
 public:
  Divider() = default;
  /// REQUIRES: 0 < divisor < 2^31.
  explicit Divider(std::uint32_t divisor) {
    while ((std::uint32_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - divisor;
    factor_ = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }
  CORE_HD std::uint32_t divide(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(n) * factor_) >> 32);
    return (high + n) >> shift_;
  }

 private:
  std::uint32_t factor_ = 1;
  std::uint32_t shift_ = 0;
};

/// Division of any number by one that is known before the kernel runs: quick where all numbers are small.
class Splitter {
 public:
  /// Splits numbers below `limit`. REQUIRES: size > 0, or nothing is split.
  Splitter(std::int64_t size, std::int64_t limit) : size_(size), is_narrow_(limit < std::int64_t{1} << 31) {
    if (is_narrow_ && size > 0 && size < std::int64_t{1} << 31) divider_ = Divider(static_cast<std::uint32_t>(size));
  }
  CORE_HD std::int64_t quotient(std::int64_t i) const {
    if (is_narrow_) return divider_.divide(static_cast<std::uint32_t>(i));
    return i / size_;
  }
  CORE_HD std::int64_t rest(std::int64_t i, std::int64_t quotient) const { return i - quotient * size_; }

 private:
  std::int64_t size_;
  bool is_narrow_;
  Divider divider_;
};

/// Offsets of N operands, in elements.
template <int N>
struct Offsets {
  std::int64_t at[N];
  CORE_HD std::int64_t operator[](int k) const { return at[k]; }
};

/// From the number of an element, counted with dimension 0 innermost, to its offset in each operand. Divides by
/// multiplication in 32 bits where numbers and offsets allow.
template <int N>
class Indexer {
 public:
  explicit Indexer(const Loop<N>& loop) : ndim_(loop.ndim) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 31;
    is_narrow_ = loop.numel < kLimit;
    std::int64_t reach[N] = {};
    for (int d = 0; d < ndim_; ++d) {
      sizes_[d] = loop.sizes[d];
      for (int k = 0; k < N; ++k) {
        strides_[k][d] = loop.strides[k][d];
        const std::int64_t step = strides_[k][d] < 0 ? -strides_[k][d] : strides_[k][d];
        reach[k] += step * (sizes_[d] > 0 ? sizes_[d] - 1 : 0);
      }
    }
    for (int k = 0; k < N; ++k) is_narrow_ = is_narrow_ && reach[k] < kLimit;
    for (int d = 0; is_narrow_ && loop.numel > 0 && d < ndim_; ++d) {
      dividers_[d] = Divider(static_cast<std::uint32_t>(sizes_[d]));
    }
  }

  CORE_HD Offsets<N> operator()(std::int64_t i) const { return is_narrow_ ? narrow_offsets(i) : wide_offsets(i); }

 private:
  CORE_HD Offsets<N> narrow_offsets(std::int64_t i) const {
    auto rest = static_cast<std::uint32_t>(i);
    std::uint32_t at[N] = {};
    CORE_NO_UNROLL
    for (int d = 0; d < ndim_ - 1; ++d) {
      const std::uint32_t next = dividers_[d].divide(rest);
      const std::uint32_t index = rest - next * static_cast<std::uint32_t>(sizes_[d]);
      for (int k = 0; k < N; ++k) at[k] += index * static_cast<std::uint32_t>(strides_[k][d]);
      rest = next;
    }
    Offsets<N> offsets;
    for (int k = 0; k < N; ++k) {
      at[k] += rest * static_cast<std::uint32_t>(strides_[k][ndim_ - 1]);
      offsets.at[k] = static_cast<std::int32_t>(at[k]);
    }
    return offsets;
  }
  CORE_HD Offsets<N> wide_offsets(std::int64_t i) const {
    Offsets<N> offsets{};
    CORE_NO_UNROLL
    for (int d = 0; d < ndim_; ++d) {
      const std::int64_t next = d == ndim_ - 1 ? 0 : i / sizes_[d];
      const std::int64_t index = i - next * sizes_[d];
      for (int k = 0; k < N; ++k) offsets.at[k] += index * strides_[k][d];
      i = next;
    }
    return offsets;
  }

  int ndim_;
  bool is_narrow_;
  Divider dividers_[kMaxDims];
  std::int64_t sizes_[kMaxDims];
  std::int64_t strides_[N][kMaxDims];
};

/// True when every operand with a non-zero stride lies without gaps: one dimension of stride 1. An operand of stride 0
/// is one element for all.
template <int N>
bool is_dense(const Loop<N>& loop, int k) {
  return loop.ndim == 1 && (loop.strides[k][0] == 1 || loop.numel <= 1);
}
template <int N>
bool is_single(const Loop<N>& loop, int k) {
  return loop.ndim == 1 && loop.strides[k][0] == 0;
}

}  // namespace core::CORE_KERNELS

#pragma once
// Fourier transforms of rows whose length is a power of two, in the type of the numbers, by Stockham's way (see
// mixed_radix.h): vectors lie along the row, so that one row is as fast as many. The first pass reads numbers as they
// lie in memory and turns squares of them, the last writes them so. Thread safety: pure functions of their arrays.
// Use: CORE_BY_ISA(fill_power_kernels)(single, twice); single.transform(row);

#include <array>
#include <cstddef>
#include <cstdint>

#include "libcore/backend/cpu/isa.h"

namespace core::cpu {

/// The shortest row: two passes of radix 8.
inline constexpr std::int64_t kShortestPower = 64;
/// Between arrays of `work`, so that numbers of one place do not fall into the same lines of the cache.
inline constexpr std::int64_t kPowerApart = 24;
/// Numbers of `work` for a row.
inline constexpr std::int64_t power_work(std::int64_t length) {
  return 4 * (length + kPowerApart);
}

/// The factors of the passes: 8, then others of which the product is the rest.
struct PowerFactors {
  std::array<std::uint8_t, 32> factors{};
  std::size_t count = 0;
};

template <class T>
struct PowerRow {
  std::int64_t length;
  const PowerFactors* passes;
  /// exp(-2 pi i part k / rest) for pass after pass but the last, `rest` what earlier passes left of the length, k from
  /// 1 below the factor. First pass: for each k real parts of all parts, then imaginary ones; others: for each part all
  /// k as pairs.
  const T* twiddles;
  bool inverse;  ///< + in the exponent instead of -
  T scale;
  const T* in;  ///< pairs of a real and an imaginary part, as `out`
  T* out;
  T* work;  ///< power_work(length) numbers; neither `in` nor `out` may lie in them
};

/// `length` real numbers and the first half of their spectrum, length / 2 + 1 complex numbers, by a transform of pairs
/// as complex numbers.
template <class T>
struct PowerHalf {
  PowerRow<T> pairs;         ///< of length / 2; `in`, `out` and `scale` are set here
  const T *cosines, *sines;  ///< of 2 pi k / length, k = 0 ... length / 2
  bool inverse;
  T scale;
  const T* in;
  T* out;
  T* spectrum;  ///< work for length numbers more
};

template <class T>
struct PowerKernels {
  void (*transform)(const PowerRow<T>& row);
  void (*to_half)(const PowerHalf<T>& row);
  void (*from_half)(const PowerHalf<T>& row);
};

CORE_EACH_ISA(void fill_power_kernels(PowerKernels<float>& single, PowerKernels<double>& twice))

}  // namespace core::cpu

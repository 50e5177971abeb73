#pragma once
// Fourier transforms of columns that lie side by side, by Stockham's way: each pass takes out one factor of the length
// and leaves its results in order, and all columns go through the same arithmetic, in vectors. Thread safety: pure
// functions of their arrays. Use: const bool in_work = CORE_BY_ISA(mixed_radix)(columns);
// Source: Stockham, "High-speed convolution and correlation", 1966; Van Loan, "Computational frameworks for the fast
// Fourier transform", 1992.

#include <cstdint>

#include "libcore/backend/cpu/isa.h"

namespace core::cpu {

/// Prime factors that passes are written for.
inline constexpr std::int64_t kLargestFactor = 13;

/// Number k of column c lies at k * columns + c.
struct MixedRadix {
  std::int64_t columns;
  const std::int64_t* factors;  ///< each 4, or a prime up to kLargestFactor; their product is the length
  std::int64_t factor_count;
  const double *cosines, *sines;  ///< of 2 pi k / length, for all k below the length
  double sign;                    ///< of the exponent: 1 or -1
  double *re, *im;
  double *work_re, *work_im;  ///< as large
};

/// Whether the results are in `work_...`; else they are where the numbers were.
CORE_EACH_ISA(bool mixed_radix(const MixedRadix& t))

}  // namespace core::cpu

#pragma once
// The inner loops of compare_bytes.h; built with full optimisation in every build. Internal.
// Thread safety: pure. Use: compare_numbers(x, y, parts, tolerance, out);

#include <span>

#include "libckpt/analyze/compare_bytes.h"

namespace ckpt::detail {

/// Elements of `width` bytes that differ. REQUIRES: equally many bytes.
std::uint64_t count_differing(Bytes a, Bytes b, std::size_t width);

/// Distances, tolerance and products of two runs of numbers, `parts` (1 or 2) an element.
void compare_numbers(std::span<const double> a, std::span<const double> b, unsigned parts, const Tolerance& tolerance,
                     ValueDifference& out);

/// Largest distance of floats of `width` bytes (1, 2, 4, 8) counted in representable numbers; NaN left out.
std::uint64_t largest_ulp(Bytes a, Bytes b, std::size_t width, std::span<const double> x, std::span<const double> y);

/// Elements that are NaN, one of whose `parts` (1 or 2) is.
std::uint64_t count_nans(std::span<const double> numbers, unsigned parts);

/// Sum of squares of the finite ones.
double sum_of_squares(std::span<const double> numbers);

}  // namespace ckpt::detail

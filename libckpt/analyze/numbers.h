#pragma once
// The values of tensors as doubles, in blocks: what statistics and comparisons count with. Internal.
// Thread safety: pure. Use: to_numbers(entry.dtype, bytes, numbers);

#include <cstdint>
#include <span>

#include "libckpt/entry.h"

namespace ckpt::detail {

/// Real numbers in one element: 2 for complex numbers and for f4_e2m1fn_x2, 0 for types that are no numbers (6-bit
/// floats and packed bits). Quantised types count as the integers they store.
unsigned numbers_per_element(core::DType dtype);

/// REQUIRES: numbers_per_element(dtype) > 0; `out` has that many numbers for every element of `in`.
void to_numbers(core::DType dtype, Bytes in, std::span<double> out);

/// Applies what a lazily conjugated or negated tensor says to its bytes, by flipping signs.
void resolve_flags(const Entry& entry, MutableBytes bytes);

/// Smallest positive normal number of a float type, of one part for a complex type; 0 for all others.
double smallest_normal(core::DType dtype);

}  // namespace ckpt::detail

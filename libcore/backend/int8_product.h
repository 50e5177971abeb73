#pragma once
// Products of matrices of 8-bit numbers on the host, summed in 32 bits, and the way from floats to such numbers and
// back. Thread safety: pure functions of their arrays. Use: core::int8_product({2, 3, 4}, a, zero, weight, sums);

#include <cstdint>

namespace core {

/// The smallest and the largest of `count` values; NaN counts as none: where nothing is left, low is above high.
struct FloatRange {
  float low, high;
};
FloatRange float_range(const float* x, std::int64_t count);

/// numbers[i] = x[i] * inverse, rounded to even, + zero, from 0 to 255.
void int8_numbers(const float* x, std::int64_t count, float inverse, std::int32_t zero, std::uint8_t* numbers);

struct Int8Sizes {
  std::int64_t m, n, k;
};
/// sums (m, n) = (a (m, k) - zero) @ weight (n, k)^T, all row-major. REQUIRES: m, n and k of at least 1. Processors
/// without VNNI add pairs in 16 bits: exact where a is at most 127.
void int8_product(const Int8Sizes& sizes, const std::uint8_t* a, std::uint8_t zero, const std::int8_t* weight,
                  std::int32_t* sums);

/// out (m, n) = sums * factor + bias (n), which may be null.
void int8_values(const std::int32_t* sums, std::int64_t m, std::int64_t n, float factor, const float* bias, float* out);

}  // namespace core

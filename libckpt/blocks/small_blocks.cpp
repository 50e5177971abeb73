// Blocks of 32, 64 or 128 values: one scale, at most one smallest value, and a few bits a value. A block of 32 holds
// its first sixteen values in the low halves of its bytes, the other sixteen in the high ones.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "libckpt/blocks/block_functions.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kHalf = 16;  // values of half a block

/// Calls `take(i, q)` for the 4-bit number of every value of a block of 32.
template <class Take>
void for_each_nibble(const std::byte* block, std::size_t at, Take take) {
  for (std::size_t i = 0; i < kHalf; ++i) {
    take(i, bits_at(block, at + i, 0, 4));
    take(i + kHalf, bits_at(block, at + i, 4, 4));
  }
}

/// The same of five bits: the fifth ones lie together at `high`.
template <class Take>
void for_each_of_five(const std::byte* block, std::size_t high, std::size_t at, Take take) {
  auto fifth = number_at<std::uint32_t>(block, high);
  for_each_nibble(block, at, [&](std::size_t i, int low) { take(i, low | static_cast<int>((fifth >> i) & 1) << 4); });
}

/// Twice the values of a 4-bit float of two exponent bits and one of mantissa; its scale is halved for that.
constexpr std::int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Half of 2^(exponent - 127).
float half_of_power(std::uint32_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
}

/// Half of an unsigned 8-bit float of four exponent bits; its NaN counts as zero.
float half_of_e4m3(int bits) {
  constexpr int kNan = 0x7f;
  if (bits == 0 || bits == kNan) return 0;
  int exponent = (bits >> 3) & 15;
  auto mantissa = static_cast<float>(bits & 7);
  float value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8, exponent - 7);
  return value / 2;
}

void put_half(std::byte* block, std::size_t at, float value) {
  core::store_le(block + at, core::f32_to_f16(value));
}

float inverse_of(float scale) {
  return scale == 0 ? 0 : 1 / scale;
}

/// The first value that is farthest from zero, with its sign.
float farthest(const float* values) {
  return *std::max_element(values, values + 2 * kHalf, [](float a, float b) { return std::abs(a) < std::abs(b); });
}

/// Also of what is no number: a scale below the smallest normal float has no inverse.
int whole_part(float value, int most) {
  if (value >= static_cast<float>(most)) return most;
  return value > 0 ? static_cast<int>(value) : 0;
}

void put_nibbles(const int* numbers, std::byte* block, std::size_t at) {
  for (std::size_t i = 0; i < kHalf; ++i) {
    block[at + i] = static_cast<std::byte>((numbers[i] & 15) | (numbers[i + kHalf] & 15) << 4);
  }
}

void put_fifth_bits(const int* numbers, std::byte* block, std::size_t at) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 2 * kHalf; ++i) bits |= static_cast<std::uint32_t>(numbers[i] >> 4 & 1) << i;
  core::store_le(block + at, bits);
}

/// Numbers around `zero` of a scale that takes the farthest value to the lowest of them.
float numbers_around_zero(const float* values, int zero, int most, int* numbers) {
  float scale = farthest(values) / static_cast<float>(-zero);
  float inverse = inverse_of(scale);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    numbers[i] = whole_part(values[i] * inverse + (static_cast<float>(zero) + 0.5F), most);
  }
  return scale;
}

struct Range {
  float scale;
  float smallest;
};

Range numbers_of_range(const float* values, int most, int* numbers) {
  auto [low, high] = std::minmax_element(values, values + 2 * kHalf);
  Range range{(*high - *low) / static_cast<float>(most), *low};
  float inverse = inverse_of(range.scale);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    numbers[i] = whole_part((values[i] - range.smallest) * inverse + 0.5F, most);
  }
  return range;
}

}  // namespace

void unpack_q4_0(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for_each_nibble(block, 2, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(q - 8); });
}

void unpack_q4_1(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  float smallest = half_at(block, 2);
  for_each_nibble(block, 4, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(q) + smallest; });
}

void unpack_q5_0(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for_each_of_five(block, 2, 6, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(q - 16); });
}

void unpack_q5_1(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  float smallest = half_at(block, 2);
  for_each_of_five(block, 4, 8, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(q) + smallest; });
}

void unpack_q8_0(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    values[i] = static_cast<float>(number_at<std::int8_t>(block, 2 + i)) * scale;
  }
}

void unpack_q8_1(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    values[i] = static_cast<float>(number_at<std::int8_t>(block, 4 + i)) * scale;  // byte 2: their sum, which is known
  }
}

void unpack_iq4_nl(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for_each_nibble(block, 2, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(kUnevenSteps[q]); });
}

void unpack_mxfp4(const std::byte* block, float* values) {
  float scale = half_of_power(number_at<std::uint8_t>(block, 0));
  for_each_nibble(block, 1, [&](std::size_t i, int q) { values[i] = scale * static_cast<float>(kTwiceE2m1[q]); });
}

void unpack_nvfp4(const std::byte* block, float* values) {
  constexpr std::size_t kParts = 4;
  for (std::size_t part = 0; part < kParts; ++part) {
    float scale = half_of_e4m3(bits_at(block, part, 0, 8));
    for (std::size_t i = 0; i < 8; ++i) {
      std::size_t at = kParts + 8 * part + i;
      values[16 * part + i] = scale * static_cast<float>(kTwiceE2m1[bits_at(block, at, 0, 4)]);
      values[16 * part + 8 + i] = scale * static_cast<float>(kTwiceE2m1[bits_at(block, at, 4, 4)]);
    }
  }
}

void unpack_q1_0(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t i = 0; i < 128; ++i) {
    values[i] = bits_at(block, 2 + i / 8, i % 8, 1) != 0 ? scale : -scale;
  }
}

void unpack_q2_0(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t i = 0; i < 64; ++i) {
    values[i] = static_cast<float>(bits_at(block, 2 + i / 4, 2 * (i % 4), 2) - 1) * scale;
  }
}

void pack_q4_0(const float* values, std::byte* block) {
  int numbers[2 * kHalf];
  put_half(block, 0, numbers_around_zero(values, 8, 15, numbers));
  put_nibbles(numbers, block, 2);
}

void pack_q4_1(const float* values, std::byte* block) {
  int numbers[2 * kHalf];
  Range range = numbers_of_range(values, 15, numbers);
  put_half(block, 0, range.scale);
  put_half(block, 2, range.smallest);
  put_nibbles(numbers, block, 4);
}

void pack_q5_0(const float* values, std::byte* block) {
  int numbers[2 * kHalf];
  put_half(block, 0, numbers_around_zero(values, 16, 31, numbers));
  put_fifth_bits(numbers, block, 2);
  put_nibbles(numbers, block, 6);
}

void pack_q5_1(const float* values, std::byte* block) {
  int numbers[2 * kHalf];
  Range range = numbers_of_range(values, 31, numbers);
  put_half(block, 0, range.scale);
  put_half(block, 2, range.smallest);
  put_fifth_bits(numbers, block, 4);
  put_nibbles(numbers, block, 8);
}

void pack_q8_0(const float* values, std::byte* block) {
  float scale = std::abs(farthest(values)) / 127;
  float inverse = inverse_of(scale);
  put_half(block, 0, scale);
  for (std::size_t i = 0; i < 2 * kHalf; ++i) {
    float number = std::round(values[i] * inverse);
    block[2 + i] = static_cast<std::byte>(number < 0 ? -whole_part(-number, 127) : whole_part(number, 127));
  }
}

}  // namespace ckpt::detail

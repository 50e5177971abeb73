// Values packed into blocks of 256 in parts, with the bits that ggml's reference functions give them: each part gets
// the scale for which the weighted squared error is smallest among a few tries, the scales are rounded to units of the
// block's, and then the values to units of theirs. Sums run in order and in f32, which decides their last bits.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "libckpt/blocks/block_functions.h"
#include "libckpt/blocks/part_fits.h"
#include "libcore/backend/cpu/isa.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kPackedValues = 256;
constexpr float kZero = 1e-15F;  // blocks whose scales are all smaller count as zero

using Values = std::span<const float>;
using Numbers = std::array<int, kPackedValues>;

/// The nearest whole number, halves to the even one, of a value below 2^22 in size: 1.5 * 2^23 leaves no bits for a
/// fraction, so the sum has it in its lowest bits. What is no number gives 0.
int nearest(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value + 12582912.F);
  return static_cast<int>(bits & 0x007fffff) - 0x00400000;
}

/// The reverse of number_of() in k_blocks.cpp, into bits that are zero.
void put_number(std::byte* block, std::size_t at, std::size_t i, std::size_t lane, unsigned width, int number) {
  std::size_t run = lane * (8 / width);
  unsigned shift = static_cast<unsigned>(i % run / lane) * width;
  block[at + i / run * lane + i % lane] |= static_cast<std::byte>((number & ((1 << width) - 1)) << shift);
}

/// Writes a scale and gives it back as it is read.
float put_scale(std::byte* block, std::size_t at, float value) {
  core::store_le(block + at, core::f32_to_f16(value));
  return half_at(block, at);
}

/// 0 where none is positive.
float largest_of(const float (&numbers)[kFitLanes], float so_far = 0) {
  for (float number : numbers) so_far = std::max(so_far, number);
  return so_far;
}

/// How far below zero the lowest of them is.
float deepest_of(const float (&lows)[kFitLanes], float so_far = 0) {
  for (float low : lows) so_far = std::max(so_far, -low);
  return so_far;
}

/// Numbers of a part whose step and depth have been rounded; those of a part without a step stay.
void number_again(Values x, float step, float depth, int most, std::span<int> numbers) {
  if (step == 0) return;
  for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = std::clamp(nearest((x[i] + depth) / step), 0, most);
}

/// What scale_min() in k_blocks.cpp reads.
void put_scale_min(std::byte* block, std::size_t at, std::size_t j, int scale, int depth) {
  if (j < 4) {
    block[at + j] |= static_cast<std::byte>(scale);
    block[at + j + 4] |= static_cast<std::byte>(depth);
    return;
  }
  block[at + j + 4] |= static_cast<std::byte>((scale & 15) | (depth & 15) << 4);
  block[at + j - 4] |= static_cast<std::byte>((scale >> 4) << 6);
  block[at + j] |= static_cast<std::byte>((depth >> 4) << 6);
}

/// Values near zero weigh least, those of a part with large values more.
void weigh_part(Values x, float* weights) {
  float squares = 0;
  for (float value : x) squares += value * value;
  const float typical = std::sqrt(squares / 32);
  std::ranges::transform(x, weights, [&](float value) { return typical + std::abs(value); });
}

/// Eight parts of 32; `put(i, number)` stores the number of value i.
template <class Put>
void pack_eight_parts(const float* values, std::byte* block, const LineTries& tries, Put put) {
  constexpr int kMostUnits = 63;
  Numbers numbers{};
  PartLines lines{};
  float weights[kPackedValues];
  auto part = [&](std::size_t j) { return Values(values + 32 * j, 32); };
  for (std::size_t j = 0; j < 8; ++j) weigh_part(part(j), weights + 32 * j);
  part_fits().lines(values, weights, 32, tries, lines, numbers.data());
  const float largest = largest_of(lines.scale);
  const float deepest = deepest_of(lines.low);
  const float inverse_scale = largest > 0 ? kMostUnits / largest : 0;
  const float inverse_depth = deepest > 0 ? kMostUnits / deepest : 0;
  const float scale = put_scale(block, 0, largest / kMostUnits);
  const float depth = put_scale(block, 2, deepest / kMostUnits);
  auto units = [&](float value) { return std::min<int>(static_cast<std::uint8_t>(nearest(value)), kMostUnits); };
  for (std::size_t j = 0; j < 8; ++j) {
    int steps = units(inverse_scale * lines.scale[j]);
    int lows = units(inverse_depth * -lines.low[j]);
    put_scale_min(block, 4, j, steps, lows);
    number_again(part(j), scale * static_cast<float>(steps), depth * static_cast<float>(lows), tries.most,
                 std::span(numbers).subspan(32 * j, 32));
  }
  for (std::size_t i = 0; i < kPackedValues; ++i) put(i, numbers[i]);
}

// Values as scale * number, numbers from -most to most - 1; those of a part are stored with `most` added.

float farthest(Values x) {
  float farthest = 0;
  for (float value : x) {
    if (std::abs(value) > std::abs(farthest)) farthest = value;
  }
  return farthest;
}

int signed_number(float value, int most) {
  return std::clamp(nearest(value), -most, most - 1);
}

/// Sixteen parts of 16: the scale of each in units of the block's, which is negative where the farthest scale is
/// positive, so that this one has the number farthest from zero.
struct SixteenParts {
  Numbers numbers{};
  std::array<float, 16> scales{};

  using Fit = void (*)(const float* values, int most, float* scales, int* numbers);

  SixteenParts(const float* values, int most, Fit fit) {
    fit(values, most, scales.data(), numbers.data());
    fit(values + kPackedValues / 2, most, scales.data() + kFitLanes, numbers.data() + kPackedValues / 2);
  }

  void number_again(const float* values, std::size_t j, float step, int most) {
    if (step == 0) return;
    for (std::size_t i = 16 * j; i < 16 * (j + 1); ++i) numbers[i] = signed_number(values[i] / step, most) + most;
  }
};

}  // namespace

const PartFits& part_fits() {
#if defined(__x86_64__)
  static const bool has_avx2 = core::cpu::isa() >= core::cpu::Isa::avx2;
  if (has_avx2) return kPartFitsAvx2;
#endif
  return kPartFitsPlain;
}

void pack_q2_k(const float* values, std::byte* block) {
  constexpr LineTries kTries{3, -0.5F, 15, true};
  constexpr int kMostUnits = 15;
  std::fill_n(block, 84, std::byte{});
  Numbers numbers{};
  PartLines halves[2];
  float weights[kPackedValues];
  std::transform(values, values + kPackedValues, weights, [](float value) { return std::abs(value); });
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t first = half * kPackedValues / 2;
    part_fits().lines(values + first, weights + first, 16, kTries, halves[half], numbers.data() + first);
  }
  const float largest = largest_of(halves[1].scale, largest_of(halves[0].scale));
  const float deepest = deepest_of(halves[1].low, deepest_of(halves[0].low));
  const float scale = put_scale(block, 80, largest / kMostUnits);
  const float depth = put_scale(block, 82, deepest / kMostUnits);
  for (std::size_t j = 0; j < 16; ++j) {
    const PartLines& lines = halves[j / kFitLanes];
    int steps = largest > 0 ? nearest(kMostUnits / largest * lines.scale[j % kFitLanes]) : 0;
    int lows = deepest > 0 ? nearest(kMostUnits / deepest * -lines.low[j % kFitLanes]) : 0;
    block[j] = static_cast<std::byte>(steps) | static_cast<std::byte>(lows << 4);
    number_again(Values(values + 16 * j, 16), scale * static_cast<float>(bits_at(block, j, 0, 4)),
                 depth * static_cast<float>(bits_at(block, j, 4, 4)), kTries.most,
                 std::span(numbers).subspan(16 * j, 16));
  }
  for (std::size_t i = 0; i < kPackedValues; ++i) put_number(block, 16, i, 32, 2, numbers[i]);
}

void pack_q3_k(const float* values, std::byte* block) {
  constexpr int kMost = 4;
  constexpr int kMostUnits = 32;
  constexpr std::size_t kScales = 96;
  std::fill_n(block, 110, std::byte{});
  SixteenParts parts(values, kMost, part_fits().improved_scales);
  const float far = farthest(parts.scales);
  const float inverse = far != 0 ? static_cast<float>(-kMostUnits) / far : 0;
  const float scale = put_scale(block, 108, far != 0 ? 1 / inverse : 0);
  for (std::size_t j = 0; j < 16; ++j) {
    // Without a scale the bits of the parts' are all zero, which reads as -32 units of nothing.
    const int units = far != 0 ? signed_number(inverse * parts.scales[j], kMostUnits) : -kMostUnits;
    const int stored = units + kMostUnits;
    block[kScales + j % 8] |= static_cast<std::byte>((stored & 15) << (j < 8 ? 0 : 4));
    block[kScales + 8 + j % 4] |= static_cast<std::byte>((stored >> 4) << 2 * (j / 4));
    parts.number_again(values, j, scale * static_cast<float>(units), kMost);
  }
  for (std::size_t i = 0; i < kPackedValues; ++i) {
    put_number(block, 32, i, 32, 2, parts.numbers[i]);
    put_number(block, 0, i, 32, 1, parts.numbers[i] >> 2);
  }
}

void pack_q4_k(const float* values, std::byte* block) {
  std::fill_n(block, 144, std::byte{});
  pack_eight_parts(values, block, {15, -1, 20, false},
                   [&](std::size_t i, int number) { put_number(block, 16, i, 32, 4, number); });
}

void pack_q5_k(const float* values, std::byte* block) {
  std::fill_n(block, 176, std::byte{});
  pack_eight_parts(values, block, {31, -0.5F, 15, false}, [&](std::size_t i, int number) {
    put_number(block, 48, i, 32, 4, number);
    put_number(block, 16, i, 32, 1, number >> 4);
  });
}

void pack_q6_k(const float* values, std::byte* block) {
  constexpr int kMost = 32;
  std::fill_n(block, 210, std::byte{});
  SixteenParts parts(values, kMost, part_fits().scales);
  const float far = farthest(parts.scales);
  if (std::abs(far) < kZero) return;
  const float inverse = -128 / far;
  const float scale = put_scale(block, 208, 1 / inverse);
  for (std::size_t j = 0; j < 16; ++j) {
    const int units = std::min(127, nearest(inverse * parts.scales[j]));
    block[192 + j] = static_cast<std::byte>(units);
    parts.number_again(values, j, scale * static_cast<float>(units), kMost);
  }
  for (std::size_t i = 0; i < kPackedValues; ++i) {
    put_number(block, 0, i, 64, 4, parts.numbers[i]);
    put_number(block, 128, i, 32, 2, parts.numbers[i] >> 4);
  }
}

}  // namespace ckpt::detail

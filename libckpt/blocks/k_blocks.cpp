// Blocks of 256 values in parts of 16 or 32, each part with a scale of its own in units of the block's.

#include "libckpt/blocks/block_functions.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kValues = 256;

/// The number of `width` bits of value `i`, where `lane` bytes hold the values i, i + lane, ... in their bits from low
/// to high, and the next `lane` bytes go on.
int number_of(const std::byte* block, std::size_t at, std::size_t i, std::size_t lane, unsigned width) {
  std::size_t run = lane * (8 / width);
  unsigned shift = static_cast<unsigned>(i % run / lane) * width;
  return bits_at(block, at + i / run * lane + i % lane, shift, width);
}

struct ScaleMin {
  float scale;
  float smallest;
};

/// Of part `j` of eight: six bits each, in twelve bytes.
ScaleMin scale_min(const std::byte* block, std::size_t at, std::size_t j) {
  if (j < 4) {
    return {static_cast<float>(bits_at(block, at + j, 0, 6)), static_cast<float>(bits_at(block, at + j + 4, 0, 6))};
  }
  int scale = bits_at(block, at + j + 4, 0, 4) | bits_at(block, at + j - 4, 6, 2) << 4;
  int smallest = bits_at(block, at + j + 4, 4, 4) | bits_at(block, at + j, 6, 2) << 4;
  return {static_cast<float>(scale), static_cast<float>(smallest)};
}

/// Values of eight parts of 32, each scale * number - smallest; `number(i)` is the number of value i.
template <class Number>
void unpack_eight_parts(const std::byte* block, float* values, Number number) {
  float scale = half_at(block, 0);
  float smallest = half_at(block, 2);
  for (std::size_t part = 0; part < 8; ++part) {
    ScaleMin units = scale_min(block, 4, part);
    float step = scale * units.scale;
    float low = smallest * units.smallest;
    for (std::size_t i = 32 * part; i < 32 * (part + 1); ++i) values[i] = step * static_cast<float>(number(i)) - low;
  }
}

/// Values of sixteen parts of 16, each with the step that `step(part)` says.
template <class Step, class Number>
void unpack_sixteen_parts(float* values, Step step, Number number) {
  for (std::size_t part = 0; part < 16; ++part) {
    float of_part = step(part);
    for (std::size_t i = 16 * part; i < 16 * (part + 1); ++i) values[i] = of_part * static_cast<float>(number(i));
  }
}

/// One of the base-three digits of a byte, less one: the byte is their fraction of 256, rounded up.
float digit_of_three(const std::byte* block, std::size_t at, std::size_t place) {
  constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  auto shifted = static_cast<std::uint8_t>(bits_at(block, at, 0, 8) * kPowers[place]);
  return static_cast<float>((shifted * 3 >> 8) - 1);
}

}  // namespace

void unpack_q2_k(const std::byte* block, float* values) {
  float scale = half_at(block, 80);
  float smallest = half_at(block, 82);
  for (std::size_t part = 0; part < 16; ++part) {
    float step = scale * static_cast<float>(bits_at(block, part, 0, 4));
    float low = smallest * static_cast<float>(bits_at(block, part, 4, 4));
    for (std::size_t i = 16 * part; i < 16 * (part + 1); ++i) {
      values[i] = step * static_cast<float>(number_of(block, 16, i, 32, 2)) - low;
    }
  }
}

void unpack_q3_k(const std::byte* block, float* values) {
  constexpr std::size_t kLow = 32;     // two low bits of each value; before them the third, which is set for no offset
  constexpr std::size_t kScales = 96;  // low halves of the scales, then their high bits
  float scale = half_at(block, 108);
  auto step = [&](std::size_t part) {
    int low = bits_at(block, kScales + part % 8, part < 8 ? 0 : 4, 4);
    int high = bits_at(block, kScales + 8 + part % 4, 2 * static_cast<unsigned>(part / 4), 2);
    return scale * static_cast<float>((low | high << 4) - 32);
  };
  unpack_sixteen_parts(values, step, [&](std::size_t i) {
    return number_of(block, kLow, i, 32, 2) - (number_of(block, 0, i, 32, 1) != 0 ? 0 : 4);
  });
}

void unpack_q4_k(const std::byte* block, float* values) {
  unpack_eight_parts(block, values, [&](std::size_t i) { return number_of(block, 16, i, 32, 4); });
}

void unpack_q5_k(const std::byte* block, float* values) {
  unpack_eight_parts(block, values, [&](std::size_t i) {
    return number_of(block, 48, i, 32, 4) | number_of(block, 16, i, 32, 1) << 4;
  });
}

void unpack_q6_k(const std::byte* block, float* values) {
  float scale = half_at(block, 208);
  auto step = [&](std::size_t part) { return scale * static_cast<float>(number_at<std::int8_t>(block, 192 + part)); };
  unpack_sixteen_parts(values, step, [&](std::size_t i) {
    return (number_of(block, 0, i, 64, 4) | number_of(block, 128, i, 32, 2) << 4) - 32;
  });
}

void unpack_q8_k(const std::byte* block, float* values) {
  auto scale = number_at<float>(block, 0);
  for (std::size_t i = 0; i < kValues; ++i) {
    values[i] = scale * static_cast<float>(number_at<std::int8_t>(block, 4 + i));
  }
}

void unpack_tq1_0(const std::byte* block, float* values) {
  struct Run {
    std::size_t at, bytes, digits;
  };
  constexpr Run kRuns[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  float scale = half_at(block, 52);
  for (const Run& run : kRuns) {
    for (std::size_t digit = 0; digit < run.digits; ++digit) {
      for (std::size_t i = 0; i < run.bytes; ++i) *values++ = scale * digit_of_three(block, run.at + i, digit);
    }
  }
}

void unpack_tq2_0(const std::byte* block, float* values) {
  float scale = half_at(block, 64);
  for (std::size_t i = 0; i < kValues; ++i) {
    values[i] = scale * static_cast<float>(number_of(block, 0, i, 32, 2) - 1);
  }
}

void unpack_iq4_xs(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  auto high = number_at<std::uint16_t>(block, 2);
  for (std::size_t part = 0; part < 8; ++part) {
    int units = bits_at(block, 4 + part / 2, part % 2 == 0 ? 0 : 4, 4) | (high >> 2 * part & 3) << 4;
    float step = scale * static_cast<float>(units - 32);
    for (std::size_t i = 32 * part; i < 32 * (part + 1); ++i) {
      values[i] = step * static_cast<float>(kUnevenSteps[number_of(block, 8, i, 16, 4)]);
    }
  }
}

}  // namespace ckpt::detail

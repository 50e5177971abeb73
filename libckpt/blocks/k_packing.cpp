// Values packed into blocks of 256 in parts, with the bits that ggml's reference functions give them: each part gets
// the scale for which the weighted squared error is smallest among a few tries, the scales are rounded to units of the
// block's, and then the values to units of theirs. Sums run in order and in f32, which decides their last bits.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "libckpt/blocks/block_functions.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kPackedValues = 256;
constexpr float kZero = 1e-15F;  // parts whose values are all smaller count as zero

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

// Values as scale * number + low, numbers from 0 up and low <= 0.

struct Line {
  float scale = 0;
  float low = 0;
};

/// How lines are tried: for values spread over `most`, then over most + first, most + first + 0.1, ...
struct Tries {
  int most;  ///< the largest number
  float first;
  int last;        ///< tries beyond the first
  bool by_amount;  ///< the error is the difference and not its square
};

int number_on(float value, float low, float inverse, int most) {
  return std::clamp(nearest(inverse * (value - low)), 0, most);
}

float error_of(const Line& line, Values values, Values weights, std::span<const int> numbers, bool by_amount) {
  float sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float off = line.scale * static_cast<float>(numbers[i]) + line.low - values[i];
    sum += weights[i] * (by_amount ? std::abs(off) : off * off);
  }
  return sum;
}

struct WeightedSums {
  float weights = 0;
  float values = 0;

  WeightedSums(Values x, Values w) : weights(w[0]), values(w[0] * x[0]) {
    for (std::size_t i = 1; i < x.size(); ++i) {
      weights += w[i];
      values += w[i] * x[i];
    }
  }
};

/// The line of least squares through values with these numbers; false where they are all the same.
bool least_squares(Values x, Values w, std::span<const int> numbers, const WeightedSums& sums, Line& line) {
  float number_sum = 0, square_sum = 0, product_sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto number = static_cast<float>(numbers[i]);
    number_sum += w[i] * number;
    square_sum += w[i] * number * number;
    product_sum += w[i] * number * x[i];
  }
  float determinant = sums.weights * square_sum - number_sum * number_sum;
  if (!(determinant > 0)) return false;
  line.scale = (sums.weights * product_sum - sums.values * number_sum) / determinant;
  line.low = (square_sum * sums.values - number_sum * product_sum) / determinant;
  if (line.low > 0) line = {product_sum / square_sum, 0};
  return true;
}

/// The best line through the values of a part, and their numbers on it.
Line best_line(Values x, Values w, const Tries& tries, std::span<int> numbers) {
  const auto [smallest, largest] = std::ranges::minmax(x);
  Line best{0, std::min(smallest, 0.F)};
  std::ranges::fill(numbers, 0);
  if (largest == best.low) return best;
  const WeightedSums sums(x, w);
  const auto most = static_cast<float>(tries.most);
  float inverse = most / (largest - best.low);
  best.scale = 1 / inverse;
  for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = number_on(x[i], best.low, inverse, tries.most);
  float least = error_of(best, x, w, numbers, tries.by_amount);
  std::array<int, 32> tried{};
  for (int step = 0; step <= tries.last; ++step) {
    inverse = (tries.first + 0.1F * static_cast<float>(step) + most) / (largest - best.low);
    for (std::size_t i = 0; i < x.size(); ++i) tried[i] = number_on(x[i], best.low, inverse, tries.most);
    Line line;
    if (!least_squares(x, w, tried, sums, line)) continue;
    float error = error_of(line, x, w, tried, tries.by_amount);
    if (!(error < least)) continue;
    std::copy_n(tried.begin(), x.size(), numbers.begin());
    least = error;
    best = line;
  }
  return best;
}

/// The largest of what `get` says of the parts; 0 where none is positive.
template <std::size_t count, class Get>
float largest_of(const std::array<Line, count>& lines, Get get) {
  float largest = 0;
  for (const Line& line : lines) largest = std::max(largest, get(line));
  return largest;
}

float scale_of(const Line& line) {
  return line.scale;
}

float depth_of(const Line& line) {
  return -line.low;
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
std::array<float, 32> weights_of_part(Values x) {
  float squares = 0;
  for (float value : x) squares += value * value;
  const float typical = std::sqrt(squares / 32);
  std::array<float, 32> weights{};
  std::ranges::transform(x, weights.begin(), [&](float value) { return typical + std::abs(value); });
  return weights;
}

/// Eight parts of 32; `put(i, number)` stores the number of value i.
template <class Put>
void pack_eight_parts(const float* values, std::byte* block, const Tries& tries, Put put) {
  constexpr int kMostUnits = 63;
  Numbers numbers{};
  std::array<Line, 8> lines;
  auto part = [&](std::size_t j) { return Values(values + 32 * j, 32); };
  auto numbers_of = [&](std::size_t j) { return std::span(numbers).subspan(32 * j, 32); };
  for (std::size_t j = 0; j < 8; ++j) lines[j] = best_line(part(j), weights_of_part(part(j)), tries, numbers_of(j));
  const float largest = largest_of(lines, scale_of);
  const float deepest = largest_of(lines, depth_of);
  const float inverse_scale = largest > 0 ? kMostUnits / largest : 0;
  const float inverse_depth = deepest > 0 ? kMostUnits / deepest : 0;
  const float scale = put_scale(block, 0, largest / kMostUnits);
  const float depth = put_scale(block, 2, deepest / kMostUnits);
  auto units = [&](float value) { return std::min<int>(static_cast<std::uint8_t>(nearest(value)), kMostUnits); };
  for (std::size_t j = 0; j < 8; ++j) {
    int steps = units(inverse_scale * lines[j].scale);
    int lows = units(inverse_depth * -lines[j].low);
    put_scale_min(block, 4, j, steps, lows);
    number_again(part(j), scale * static_cast<float>(steps), depth * static_cast<float>(lows), tries.most,
                 numbers_of(j));
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

/// Sums over values weighted by their squares: of their products with their numbers, and of the numbers' squares.
struct SquareSums {
  float products = 0;
  float squares = 0;

  void add(float x, int number) {
    const float weight = x * x;
    products += weight * x * static_cast<float>(number);
    squares += weight * static_cast<float>(number) * static_cast<float>(number);
  }

  SquareSums without(float x, int number) const {
    const float weight = x * x;
    return {products - weight * x * static_cast<float>(number),
            squares - weight * static_cast<float>(number) * static_cast<float>(number)};
  }
};

SquareSums sums_of(Values x, float inverse, int most) {
  SquareSums sums;
  for (float value : x) sums.add(value, signed_number(inverse * value, most));
  return sums;
}

/// The best scale of a part among nineteen, and its numbers.
float best_scale(Values x, int most, std::span<int> numbers) {
  const float far = farthest(x);
  std::ranges::fill(numbers, 0);
  if (std::abs(far) < kZero) return 0;
  auto number_by = [&](float inverse) {
    for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = signed_number(inverse * x[i], most) + most;
  };
  float inverse = static_cast<float>(-most) / far;
  SquareSums sums = sums_of(x, inverse, most);
  number_by(inverse);
  float scale = sums.squares != 0 ? sums.products / sums.squares : 0;
  float best = scale * sums.products;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    inverse = -(static_cast<float>(most) + 0.1F * static_cast<float>(step)) / far;
    sums = sums_of(x, inverse, most);
    if (!(sums.squares > 0 && sums.products * sums.products > best * sums.squares)) continue;
    number_by(inverse);
    scale = sums.products / sums.squares;
    best = scale * sums.products;
  }
  return scale;
}

/// Moves numbers one at a time, as long as that makes the error smaller; true when one has moved.
bool improve(Values x, int most, std::span<int> numbers, SquareSums& sums) {
  bool moved = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    SquareSums others = sums.without(x[i], numbers[i]);
    if (!(others.products > 0)) continue;
    const int number = signed_number(x[i] * others.squares / others.products, most);
    if (number == numbers[i]) continue;
    others.add(x[i], number);
    if (!(others.squares > 0 &&
          others.products * others.products * sums.squares > sums.products * sums.products * others.squares)) {
      continue;
    }
    numbers[i] = number;
    sums = others;
    moved = true;
  }
  return moved;
}

/// The scale of a part whose numbers are improved in at most five rounds.
float improved_scale(Values x, int most, std::span<int> numbers) {
  const float far = farthest(x);
  std::ranges::fill(numbers, 0);
  if (std::abs(far) < kZero) return 0;
  const float inverse = static_cast<float>(-most) / far;
  SquareSums sums = sums_of(x, inverse, most);
  for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = signed_number(inverse * x[i], most);
  for (int round = 0; round < 5 && improve(x, most, numbers, sums); ++round) {
  }
  for (int& number : numbers) number += most;
  return sums.squares > 0 ? sums.products / sums.squares : 0;
}

/// Sixteen parts of 16: the scale of each in units of the block's, which is negative where the farthest scale is
/// positive, so that this one has the number farthest from zero.
struct SixteenParts {
  Numbers numbers{};
  std::array<float, 16> scales{};

  template <class Fit>
  SixteenParts(const float* values, int most, Fit fit) {
    for (std::size_t j = 0; j < 16; ++j) scales[j] = fit(Values(values + 16 * j, 16), most, part(j));
  }

  std::span<int> part(std::size_t j) { return std::span(numbers).subspan(16 * j, 16); }

  void number_again(const float* values, std::size_t j, float step, int most) {
    if (step == 0) return;
    for (std::size_t i = 16 * j; i < 16 * (j + 1); ++i) numbers[i] = signed_number(values[i] / step, most) + most;
  }
};

}  // namespace

void pack_q2_k(const float* values, std::byte* block) {
  constexpr Tries kTries{3, -0.5F, 15, true};
  constexpr int kMostUnits = 15;
  std::fill_n(block, 84, std::byte{});
  Numbers numbers{};
  std::array<Line, 16> lines;
  auto part = [&](std::size_t j) { return Values(values + 16 * j, 16); };
  auto numbers_of = [&](std::size_t j) { return std::span(numbers).subspan(16 * j, 16); };
  for (std::size_t j = 0; j < 16; ++j) {
    std::array<float, 16> weights{};
    std::ranges::transform(part(j), weights.begin(), [](float value) { return std::abs(value); });
    lines[j] = best_line(part(j), weights, kTries, numbers_of(j));
  }
  const float largest = largest_of(lines, scale_of);
  const float deepest = largest_of(lines, depth_of);
  const float scale = put_scale(block, 80, largest / kMostUnits);
  const float depth = put_scale(block, 82, deepest / kMostUnits);
  for (std::size_t j = 0; j < 16; ++j) {
    int steps = largest > 0 ? nearest(kMostUnits / largest * lines[j].scale) : 0;
    int lows = deepest > 0 ? nearest(kMostUnits / deepest * -lines[j].low) : 0;
    block[j] = static_cast<std::byte>(steps) | static_cast<std::byte>(lows << 4);
    number_again(part(j), scale * static_cast<float>(bits_at(block, j, 0, 4)),
                 depth * static_cast<float>(bits_at(block, j, 4, 4)), kTries.most, numbers_of(j));
  }
  for (std::size_t i = 0; i < kPackedValues; ++i) put_number(block, 16, i, 32, 2, numbers[i]);
}

void pack_q3_k(const float* values, std::byte* block) {
  constexpr int kMost = 4;
  constexpr int kMostUnits = 32;
  constexpr std::size_t kScales = 96;
  std::fill_n(block, 110, std::byte{});
  SixteenParts parts(values, kMost, improved_scale);
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
  SixteenParts parts(values, kMost, best_scale);
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

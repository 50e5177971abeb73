// Blocks of 256 values that are points of a grid of four or eight coordinates, with signs and scales of their parts.

#include <bit>

#include "libckpt/blocks/block_functions.h"
#include "libckpt/blocks/block_grids.h"

namespace ckpt::detail {
namespace {

/// The signs of eight values in seven bits: the eighth makes their number even.
unsigned with_eighth_sign(unsigned seven) {
  return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7;
}

float signed_value(float value, unsigned signs, std::size_t i) {
  return value * ((signs >> i & 1) != 0 ? -1.0F : 1.0F);  // a product, as NaN keeps its sign in one
}

/// Eight values: those of one point.
template <class Grid>
void put_point(const Grid& grid, std::size_t point, float scale, unsigned signs, float* values) {
  for (std::size_t i = 0; i < 8; ++i) values[i] = signed_value(scale * grid.at(point, i), signs, i);
}

/// Eight values: those of two points of four.
template <class Grid>
void put_two_points(const Grid& grid, std::size_t first, std::size_t second, float scale, unsigned signs,
                    float* values) {
  for (std::size_t i = 0; i < 8; ++i) {
    values[i] = signed_value(scale * grid.at(i < 4 ? first : second, i % 4), signs, i);
  }
}

/// Part `part` of those that have four bits each.
int nibble(const std::byte* block, std::size_t at, std::size_t part) {
  return bits_at(block, at + part / 2, part % 2 == 0 ? 0 : 4, 4);
}

unsigned byte_of(const std::byte* block, std::size_t at) {
  return std::to_integer<unsigned>(block[at]);
}

/// The scale of a part of IQ2: an odd number of eighths.
float eighths(float scale, float units) {
  return scale * (0.5F + units) * 0.25F;
}

/// Eight values of IQ1: the points moved to one side.
void put_moved_point(std::size_t point, float scale, float moved, float* values) {
  for (std::size_t i = 0; i < 8; ++i) values[i] = scale * (kGridIq1.at(point, i) + moved);
}

constexpr float kMoved = 0.125F;

}  // namespace

void unpack_iq2_xxs(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t part = 0; part < 8; ++part) {
    std::size_t at = 2 + 8 * part;
    auto signs = number_at<std::uint32_t>(block, at + 4);
    float of_part = eighths(scale, static_cast<float>(signs >> 28));
    for (std::size_t k = 0; k < 4; ++k) {
      put_point(kGridIq2Xxs, byte_of(block, at + k), of_part, with_eighth_sign(signs >> 7 * k & 127),
                values + 32 * part + 8 * k);
    }
  }
}

void unpack_iq2_xs(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t k = 0; k < 32; ++k) {
    float of_part = eighths(scale, static_cast<float>(nibble(block, 66, k / 2)));
    unsigned number = number_at<std::uint16_t>(block, 2 + 2 * k);
    put_point(kGridIq2Xs, number & 511, of_part, with_eighth_sign(number >> 9), values + 8 * k);
  }
}

void unpack_iq2_s(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t k = 0; k < 32; ++k) {
    float of_part = eighths(scale, static_cast<float>(nibble(block, 74, k / 2)));
    int high = bits_at(block, 66 + k / 4, 2 * static_cast<unsigned>(k % 4), 2);
    put_point(kGridIq2S, byte_of(block, 2 + k) | static_cast<unsigned>(high) << 8, of_part, byte_of(block, 34 + k),
              values + 8 * k);
  }
}

void unpack_iq3_xxs(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t part = 0; part < 8; ++part) {
    auto signs = number_at<std::uint32_t>(block, 66 + 4 * part);
    float of_part = scale * (0.5F + static_cast<float>(signs >> 28)) * 0.5F;
    for (std::size_t k = 0; k < 4; ++k) {
      std::size_t at = 2 + 8 * part + 2 * k;
      put_two_points(kGridIq3Xxs, byte_of(block, at), byte_of(block, at + 1), of_part,
                     with_eighth_sign(signs >> 7 * k & 127), values + 32 * part + 8 * k);
    }
  }
}

void unpack_iq3_s(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  auto point = [&](std::size_t k) {
    return byte_of(block, 2 + k) | static_cast<unsigned>(bits_at(block, 66 + k / 8, k % 8, 1)) << 8;
  };
  for (std::size_t k = 0; k < 32; ++k) {
    float of_part = scale * static_cast<float>(1 + 2 * nibble(block, 106, k / 4));
    put_two_points(kGridIq3S, point(2 * k), point(2 * k + 1), of_part, byte_of(block, 74 + k), values + 8 * k);
  }
}

void unpack_iq1_s(const std::byte* block, float* values) {
  float scale = half_at(block, 0);
  for (std::size_t k = 0; k < 32; ++k) {
    unsigned part = number_at<std::uint16_t>(block, 34 + 2 * (k / 4));
    float of_part = scale * static_cast<float>(2 * (part >> 12 & 7) + 1);
    std::size_t point = byte_of(block, 2 + k) | (part >> 3 * (k % 4) & 7) << 8;
    put_moved_point(point, of_part, (part & 0x8000U) == 0 ? kMoved : -kMoved, values + 8 * k);
  }
}

void unpack_iq1_m(const std::byte* block, float* values) {
  constexpr std::size_t kScales = 48;  // four numbers of 16 bits: four scales of three, and a quarter of the block's
  unsigned bits = 0;
  for (std::size_t i = 0; i < 4; ++i) bits |= (number_at<std::uint16_t>(block, kScales + 2 * i) >> 12U) << 4 * i;
  float scale = core::f16_to_f32(static_cast<std::uint16_t>(bits));
  for (std::size_t k = 0; k < 32; ++k) {
    std::size_t part = k / 2;
    unsigned units = number_at<std::uint16_t>(block, kScales + 2 * (part / 4)) >> 3 * (part % 4) & 7;
    unsigned high = static_cast<unsigned>(nibble(block, 32, k));
    put_moved_point(byte_of(block, k) | (high & 7) << 8, scale * static_cast<float>(2 * units + 1),
                    (high & 8) == 0 ? kMoved : -kMoved, values + 8 * k);
  }
}

}  // namespace ckpt::detail

#pragma once
// The grids of the IQ types of GGUF: points of four or eight coordinates that a block's numbers choose among. Facts of
// the format. Thread safety: constants. Use: int x = kGridIq2Xs.at(point, 3);

#include <array>
#include <cstdint>

namespace ckpt::detail {

/// `Points` points; each coordinate is a number of `Bits` bits of the point's 16 that says which of `levels` it is.
template <std::size_t Points, unsigned Bits, std::size_t Levels>
struct BlockGrid {
  std::array<std::int8_t, Levels> levels;
  std::array<std::uint16_t, Points> points;

  float at(std::size_t point, std::size_t coordinate) const {
    return levels[points[point] >> (Bits * coordinate) & ((1U << Bits) - 1)];
  }
};

extern const BlockGrid<2048, 2, 3> kGridIq1;
extern const BlockGrid<256, 2, 3> kGridIq2Xxs;
extern const BlockGrid<512, 2, 3> kGridIq2Xs;
extern const BlockGrid<1024, 2, 3> kGridIq2S;
extern const BlockGrid<256, 4, 8> kGridIq3Xxs;
extern const BlockGrid<512, 4, 8> kGridIq3S;

}  // namespace ckpt::detail

// Winograd's convolution: pixels to positions.
#include "libcore/backend/cpu/conv/winograd/points.h"
#include "libcore/backend/cpu/conv/winograd/winograd.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {
namespace {

/// The pixels of a tile: the first one, and floats to the next row and column.
struct Pixels {
  const float* first;
  std::int64_t row, column;
};

template <int kTile>
void transform_tile(const Pixels& in, float* out, std::int64_t apart) {
  constexpr int kSide = kTile + 2;
  Floats half[kSide][kSide];
#pragma GCC unroll 6
  for (int x = 0; x < kSide; ++x) {
    Floats d[kSide];
#pragma GCC unroll 6
    for (int y = 0; y < kSide; ++y) d[y] = load<Floats>(in.first + y * in.row + x * in.column);
    Points<kTile>::transform_input(d);
#pragma GCC unroll 6
    for (int y = 0; y < kSide; ++y) half[y][x] = d[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < kSide; ++y) {
    Points<kTile>::transform_input(half[y]);
#pragma GCC unroll 6
    for (int x = 0; x < kSide; ++x, out += apart) store(out, half[y][x]);
  }
}

void put_zeros(float* to, std::int64_t pixels) {
  for (std::int64_t i = 0; i < pixels; ++i) store(to + i * kLanes, Floats{});
}

/// A tile at the border, with the zeros around the image.
Pixels with_border(const Pixels& in, const Plan::Place& place, std::int64_t side, float* copy) {
  const Range rows = place.row.inside, columns = place.column.inside;
  put_zeros(copy, rows.begin * side);
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    float* to = copy + y * side * kLanes;
    put_zeros(to, columns.begin);
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      Floats pixel = load<Floats>(in.first + y * in.row + x * in.column);
      store(to + x * kLanes, pixel);
    }
    put_zeros(to + columns.end * kLanes, side - columns.end);
  }
  put_zeros(copy + rows.end * side * kLanes, (side - rows.end) * side);
  return {copy, side * kLanes, kLanes};
}

Pixels pixels_of(const Plan& plan, const float* image, std::int64_t block, const Plan::Place& place, float* copy) {
  const Conv2dSizes& s = plan.sizes;
  const std::int64_t side = plan.tile + 2;
  const float* from = image + (place.image * plan.in_blocks() + block) * s.in_h * s.in_w * kLanes;
  const Pixels in{from + (place.row.in * s.in_w + place.column.in) * kLanes, s.dilation_h * s.in_w * kLanes,
                  s.dilation_w * kLanes};
  const bool inside = place.row.inside.count() == side && place.column.inside.count() == side;
  return inside ? in : with_border(in, place, side, copy);
}

}  // namespace

void transform_input(const Plan& plan, const float* image, const Transformed& input, Range part) {
  alignas(64) float copy[36 * kLanes];
  const std::int64_t tiles = input.tiles.count(), apart = input.apart();
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const Plan::Place place = plan.place(input.tiles.begin + i % tiles);
    const Pixels in = pixels_of(plan, image, input.blocks.begin + i / tiles, place, copy);
    plan.tile == 4 ? transform_tile<4>(in, input.data + i * kLanes, apart)
                   : transform_tile<2>(in, input.data + i * kLanes, apart);
  }
}

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

// Winograd's convolution: between pixels and positions, and the weights at positions.
#include <algorithm>

#include "libcore/backend/cpu/conv/epilogue.h"
#include "libcore/backend/cpu/conv/winograd/points.h"
#include "libcore/backend/cpu/conv/winograd/winograd.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {
namespace {

/// The pixels of a tile: the first one, and floats to the next row and column.
struct Pixels {
  const float* first;
  std::int64_t row, column;
};

template <int kTile>
void see_tile(const Pixels& in, float* out, std::int64_t apart) {
  constexpr int kSide = kTile + 2;
  Floats half[kSide][kSide];
#pragma GCC unroll 6
  for (int x = 0; x < kSide; ++x) {
    Floats d[kSide];
#pragma GCC unroll 6
    for (int y = 0; y < kSide; ++y) load(d[y], in.first + y * in.row + x * in.column);
    Points<kTile>::see(d);
#pragma GCC unroll 6
    for (int y = 0; y < kSide; ++y) half[y][x] = d[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < kSide; ++y) {
    Points<kTile>::see(half[y]);
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
      Floats pixel;
      load(pixel, in.first + y * in.row + x * in.column);
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

/// What becomes of the sums of one block of the output.
struct Finish {
  Floats bias{}, scale{}, shift{};
  bool maps = false;
  const float* addend = nullptr;  ///< of the image's block
  ImageActivation activation = ImageActivation::none;
  float* out = nullptr;  ///< the image's block
  std::int64_t step;     ///< floats from one output of a tile to the next

  Finish(const ImageConv& p, std::int64_t block) : activation(p.after.activation), step(p.sizes.dilation_w * kLanes) {
    const std::int64_t channel = block * kLanes;
    if (p.bias != nullptr) load_up_to(bias, p.bias + channel, std::min(kLanes, p.sizes.out_channels - channel));
    maps = p.after.scale != nullptr;
    if (!maps) return;
    load(scale, p.after.scale + channel);
    load(shift, p.after.shift + channel);
  }

  template <ImageActivation kActivation, int kCount>
  [[gnu::always_inline]] static inline void activate_all(Floats (&y)[kCount]) {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) activate<kActivation>(y[i]);
  }

  template <int kCount>
  [[gnu::always_inline]] inline void activate_row(Floats (&y)[kCount]) const {
    switch (activation) {
      case ImageActivation::none:
        return;
      case ImageActivation::relu:
        return activate_all<ImageActivation::relu>(y);
      case ImageActivation::relu6:
        return activate_all<ImageActivation::relu6>(y);
      case ImageActivation::hardswish:
        return activate_all<ImageActivation::hardswish>(y);
      case ImageActivation::silu:
        return activate_all<ImageActivation::silu>(y);
    }
  }

  /// A row of a tile, of which `count` outputs are there, the first one `at`.
  template <int kCount>
  [[gnu::always_inline]] inline void put(Floats (&y)[kCount], std::int64_t count, std::int64_t at) const {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) y[i] = maps ? (y[i] + bias) * scale + shift : y[i] + bias;
    if (addend != nullptr) {
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        if (i >= count) break;
        Floats more;
        load(more, addend + at + i * step);
        y[i] += more;
      }
    }
    activate_row(y);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      if (i >= count) break;
      store(out + at + i * step, y[i]);
    }
  }
};

template <int kTile>
void put_tile(const Plan& plan, const float* sums, std::int64_t apart, const Plan::Place& place, const Finish& finish) {
  constexpr int kSide = kTile + 2;
  Floats half[kTile][kSide];
#pragma GCC unroll 6
  for (int x = 0; x < kSide; ++x) {
    Floats m[kSide], y[kTile];
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) load(m[i], sums + (i * kSide + x) * apart);
    Points<kTile>::make(m, y);
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i) half[i][x] = y[i];
  }
  const Conv2dSizes& s = plan.sizes;
#pragma GCC unroll 4
  for (int i = 0; i < kTile; ++i) {
    if (i >= place.row.count) return;
    Floats y[kTile];
    Points<kTile>::make(half[i], y);
    finish.put(y, place.column.count, ((place.row.out + i * s.dilation_h) * s.out_w + place.column.out) * kLanes);
  }
}

/// One block at all positions: g (lane, channel, tap) to (position, channel, lane).
template <int kTile>
void prepare_block(const Plan& plan, const float* weight, std::int64_t block, float* prepared) {
  constexpr int kSide = kTile + 2;
  const std::int64_t width = plan.inputs(), first = block * kLanes;
  const std::int64_t there = std::min(kLanes, plan.sizes.out_channels - first);
  float* out = prepared + block * plan.positions() * width * kLanes;
  for (std::int64_t c = 0; c < width; ++c) {
    double taps[3][3][kLanes] = {}, half[kSide][3][kLanes];
    for (std::int64_t lane = 0; lane < there; ++lane) {
      const float* from = weight + ((first + lane) * width + c) * 9;
      for (int i = 0; i < 9; ++i) taps[i / 3][i % 3][lane] = from[i];
    }
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < 3; ++x) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          const double* t = Points<kTile>::kTaps[y];
          half[y][x][lane] = t[0] * taps[0][x][lane] + t[1] * taps[1][x][lane] + t[2] * taps[2][x][lane];
        }
      }
    }
    for (int i = 0; i < kSide * kSide; ++i) {
      const double* t = Points<kTile>::kTaps[i % kSide];
      const auto& row = half[i / kSide];
      float* to = out + (i * width + c) * kLanes;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        to[lane] = static_cast<float>(t[0] * row[0][lane] + t[1] * row[1][lane] + t[2] * row[2][lane]);
      }
    }
  }
}

}  // namespace

void see_tiles(const Plan& plan, const float* image, const Seen& seen, Range part) {
  alignas(64) float copy[36 * kLanes];
  const std::int64_t tiles = seen.tiles.count(), apart = seen.apart();
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const Plan::Place place = plan.place(seen.tiles.begin + i % tiles);
    const Pixels in = pixels_of(plan, image, seen.blocks.begin + i / tiles, place, copy);
    plan.tile == 4 ? see_tile<4>(in, seen.data + i * kLanes, apart) : see_tile<2>(in, seen.data + i * kLanes, apart);
  }
}

void put_tiles(const Plan& plan, const ImageConv& p, const Sums& sums) {
  const std::int64_t plane = p.sizes.out_h * p.sizes.out_w * kLanes, apart = sums.apart();
  for (std::int64_t b = 0; b < sums.blocks; ++b) {
    Finish finish(p, sums.block + b);
    for (std::int64_t i = 0; i < sums.tiles.count(); ++i) {
      const Plan::Place place = plan.place(sums.tiles.begin + i);
      const std::int64_t before = (place.image * plan.out_blocks() + sums.block + b) * plane;
      finish.out = p.output + before;
      if (p.after.addend != nullptr) finish.addend = p.after.addend + before;
      const float* from = sums.data + (i * sums.blocks + b) * kLanes;
      plan.tile == 4 ? put_tile<4>(plan, from, apart, place, finish) : put_tile<2>(plan, from, apart, place, finish);
    }
  }
}

void prepare_weights(const Plan& plan, const float* weight, float* prepared) {
  parallel_for(plan.out_blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      plan.tile == 4 ? prepare_block<4>(plan, weight, block, prepared)
                     : prepare_block<2>(plan, weight, block, prepared);
    }
  });
}

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

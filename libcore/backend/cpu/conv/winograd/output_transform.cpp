// Winograd's convolution: positions to outputs, and the epilogue.
#include "libcore/backend/cpu/conv/epilogue.h"
#include "libcore/backend/cpu/conv/winograd/points.h"
#include "libcore/backend/cpu/conv/winograd/winograd.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {
namespace {

/// A block of an image's output.
struct Output {
  Epilogue epilogue;
  const float* addend;  ///< or null
  float* out;
  std::int64_t step;  ///< floats from one output of a tile to the next

  /// A row of a tile, of which `count` outputs are there, the first one `at`.
  template <int kCount>
  CORE_INLINE void put(Floats (&y)[kCount], std::int64_t count, std::int64_t at) const {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      y[i] = epilogue.linear(y[i], addend != nullptr && i < count ? addend + at + i * step : nullptr);
    }
    epilogue.activate(y);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      if (i >= count) break;
      store(out + at + i * step, y[i]);
    }
  }
};

template <int kTile>
void transform_tile(const Plan& plan, const float* sums, std::int64_t apart, const Plan::Place& place,
                    const Output& output) {
  constexpr int kSide = kTile + 2;
  Floats half[kTile][kSide];
#pragma GCC unroll 6
  for (int x = 0; x < kSide; ++x) {
    Floats m[kSide], y[kTile];
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) m[i] = load<Floats>(sums + (i * kSide + x) * apart);
    Points<kTile>::transform_output(m, y);
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i) half[i][x] = y[i];
  }
  const Conv2dSizes& s = plan.sizes;
#pragma GCC unroll 4
  for (int i = 0; i < kTile; ++i) {
    if (i >= place.row.count) return;
    Floats y[kTile];
    Points<kTile>::transform_output(half[i], y);
    output.put(y, place.column.count, ((place.row.out + i * s.dilation_h) * s.out_w + place.column.out) * kLanes);
  }
}

}  // namespace

void transform_output(const Plan& plan, const ImageConv& p, const Sums& sums) {
  const std::int64_t plane = p.sizes.out_h * p.sizes.out_w * kLanes, apart = sums.apart();
  for (std::int64_t b = 0; b < sums.blocks; ++b) {
    Output output{Epilogue(p, sums.block + b), nullptr, nullptr, p.sizes.dilation_w * kLanes};
    for (std::int64_t i = 0; i < sums.tiles.count(); ++i) {
      const Plan::Place place = plan.place(sums.tiles.begin + i);
      const std::int64_t before = (place.image * plan.out_blocks() + sums.block + b) * plane;
      output.out = p.output + before;
      if (p.epilogue.addend != nullptr) output.addend = p.epilogue.addend + before;
      const float* from = sums.data + (i * sums.blocks + b) * kLanes;
      plan.tile == 4 ? transform_tile<4>(plan, from, apart, place, output)
                     : transform_tile<2>(plan, from, apart, place, output);
    }
  }
}

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

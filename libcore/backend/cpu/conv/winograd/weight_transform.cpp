// Winograd's convolution: weights to positions, which packs them besides.
#include <algorithm>

#include "libcore/backend/cpu/conv/winograd/points.h"
#include "libcore/backend/cpu/conv/winograd/winograd.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {
namespace {

/// One block at all positions: g (lane, channel, tap) to (position, channel, lane).
template <int kTile>
void transform_block(const Plan& plan, const float* weight, std::int64_t block, float* packed) {
  constexpr int kSide = kTile + 2;
  const std::int64_t width = plan.inputs(), first = block * kLanes;
  const std::int64_t there = std::min(kLanes, plan.sizes.out_channels - first);
  float* out = packed + block * plan.positions() * width * kLanes;
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

void transform_weights(const Plan& plan, const float* weight, float* packed) {
  parallel_for(plan.out_blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      plan.tile == 4 ? transform_block<4>(plan, weight, block, packed)
                     : transform_block<2>(plan, weight, block, packed);
    }
  });
}

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

// Winograd's convolution: the sums over channels at each position, with AVX-512.
#include "libcore/backend/cpu/conv/winograd/winograd.h"

#include <immintrin.h>

#include <array>
#include <utility>

namespace core::cpu::CORE_CPU_VARIANT::winograd {
namespace {

/// With two blocks 28 sums of 32 registers: two more hold the factors of both blocks, one a tile's number in all lanes.
constexpr int kMostTiles = 14;

/// The sums of some tiles at one position.
struct Piece {
  const float* input;  ///< the first tile of block 0
  std::int64_t next_block;
  Range channels;        ///< counted from block 0
  std::int64_t partner;  ///< channels on to those that the upper eight outputs see
  const float* weights;
  std::int64_t next_weights;  ///< floats to those of the next block
  float* sums;
};
using Kernel = void (*)(const Piece&);

/// Channels that are summed up before their sum is added to that of the ones before: the error grows with the number of
/// summands in a row, and so it is smaller than that of oneDNN's kernels.
constexpr std::int64_t kChannelsInARow = 128;

template <int kCount>
CORE_INLINE void put_sums(Floats (&sums)[kCount], bool is_first, float* to) {
  if (!is_first) {
#pragma GCC unroll 28
    for (int i = 0; i < kCount; ++i) {
      Floats before = load<Floats>(to + i * kLanes);
      sums[i] += before;
    }
  }
#pragma GCC unroll 28
  for (int i = 0; i < kCount; ++i) store(to + i * kLanes, sums[i]);
}

/// Floats of a block's weights that are asked for before they are needed: where those are in no cache of the core, a
/// Xeon alone expects too few of them, and waits (512 to 512 channels of 7 x 7: 2.0 ms in place of 2.5, 256 of 14 x
/// 14: 1.1 in place of 1.4; twice or half as far is as good).
constexpr std::int64_t kAhead = 32 * kLanes;

template <int kTiles, int kBlocks>
void sum_up(const Piece& p) {
  const float* weights = p.weights;
  for (std::int64_t row = p.channels.begin; row < p.channels.end; row += kChannelsInARow) {
    const std::int64_t row_end = std::min(p.channels.end, row + kChannelsInARow);
    Floats sums[kTiles * kBlocks] = {};
    for (std::int64_t c = row; c < row_end;) {
      const std::int64_t end = std::min(row_end, (c / kLanes + 1) * kLanes);
      const float* input = p.input + c / kLanes * p.next_block + c % kLanes;
      for (; c < end; ++c, ++input, weights += kLanes) {
        Floats factors[kBlocks];
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) {
          factors[b] = load<Floats>(weights + b * p.next_weights);
          __builtin_prefetch(weights + b * p.next_weights + kAhead);
        }
#pragma GCC unroll 14
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma GCC unroll 2
          for (int b = 0; b < kBlocks; ++b) sums[tile * kBlocks + b] += input[tile * kLanes] * factors[b];
        }
      }
    }
    put_sums(sums, row == p.channels.begin, p.sums);
  }
}

/// Of a block whose lower eight outputs belong to one group and whose upper eight to the next.
template <int kTiles>
void sum_up_two_groups(const Piece& p) {
  const float* weights = p.weights;
  constexpr std::int64_t kHalf = kLanes / 2;
  constexpr __mmask16 kUpper = 0xff00;
  for (std::int64_t row = p.channels.begin; row < p.channels.end; row += kChannelsInARow) {
    const std::int64_t row_end = std::min(p.channels.end, row + kChannelsInARow);
    Floats sums[kTiles] = {};
    for (std::int64_t c = row; c < row_end; c += kHalf) {
      const std::int64_t other = c + p.partner;
      const float* lower = p.input + c / kLanes * p.next_block + c % kLanes;
      const float* upper = p.input + other / kLanes * p.next_block + other % kLanes;
      for (std::int64_t i = 0; i < kHalf; ++i, ++lower, ++upper, weights += kLanes) {
        Floats factors = load<Floats>(weights);
#pragma GCC unroll 14
        for (int tile = 0; tile < kTiles; ++tile) {
          const __m512 x = _mm512_set1_ps(lower[tile * kLanes]);
          sums[tile] += _mm512_mask_broadcastss_ps(x, kUpper, _mm_load_ss(upper + tile * kLanes)) * factors;
        }
      }
    }
    put_sums(sums, row == p.channels.begin, p.sums);
  }
}

using Kernels = std::array<Kernel, kMostTiles + 1>;  // by the number of tiles

template <int kBlocks, int... kTiles>
constexpr Kernels kernels_of_blocks(std::integer_sequence<int, kTiles...>) {
  return {nullptr, sum_up<kTiles + 1, kBlocks>...};
}
template <int... kTiles>
constexpr Kernels kernels_of_two_groups(std::integer_sequence<int, kTiles...>) {
  return {nullptr, sum_up_two_groups<kTiles + 1>...};
}

constexpr std::make_integer_sequence<int, kMostTiles> kCounts{};
constexpr Kernels kOneBlock = kernels_of_blocks<1>(kCounts);
constexpr Kernels kTwoBlocks = kernels_of_blocks<2>(kCounts);
constexpr Kernels kTwoGroups = kernels_of_two_groups(kCounts);

std::int64_t group_of(const Plan& plan, std::int64_t channel) {
  return std::min(channel, plan.sizes.out_channels - 1) / plan.outputs();
}
std::int64_t first_group(const Plan& plan, std::int64_t block) {
  return group_of(plan, block * kLanes);
}
std::int64_t last_group(const Plan& plan, std::int64_t block) {
  return group_of(plan, block * kLanes + kLanes - 1);
}

}  // namespace

std::int64_t blocks_alike(const Plan& plan, std::int64_t block, std::int64_t end) {
  const bool alike = block + 1 < end && first_group(plan, block) == last_group(plan, block + 1);
  return alike ? 2 : 1;
}

void multiply(const Plan& plan, const Transformed& input, const float* weights, const Sums& sums) {
  const std::int64_t width = plan.inputs(), panel = width * kLanes, positions = plan.positions();
  const std::int64_t group = first_group(plan, sums.block);
  const bool two_groups = last_group(plan, sums.block) != group;
  const Kernels& kernels = two_groups ? kTwoGroups : sums.blocks == 2 ? kTwoBlocks : kOneBlock;
  const std::int64_t begin = group * width - input.blocks.begin * kLanes;
  const std::int64_t tiles = sums.tiles.count(), pieces = (tiles + kMostTiles - 1) / kMostTiles;
  Piece piece{.input = nullptr,
              .next_block = input.block(),
              .channels = {begin, begin + width},
              .partner = width,
              .weights = weights + sums.block * positions * panel,
              .next_weights = positions * panel,
              .sums = nullptr};
  const float* position = input.data + (sums.tiles.begin - input.tiles.begin) * kLanes;
  for (std::int64_t i = 0; i < positions; ++i, piece.weights += panel) {
    for (std::int64_t part = 0; part < pieces; ++part) {
      const std::int64_t first = tiles * part / pieces, count = tiles * (part + 1) / pieces - first;
      piece.input = position + i * input.apart() + first * kLanes;
      piece.sums = sums.data + i * sums.apart() + first * sums.blocks * kLanes;
      kernels[static_cast<std::size_t>(count)](piece);
    }
  }
}

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

#pragma once
// The parts of Winograd's convolution of 3 x 3 on images in blocks: what is computed from the sizes, and the three
// steps. A tile of kTile x kTile outputs sees (kTile + 2)^2 pixels; both are taken into "positions", in which each
// output is a sum over channels alone. So a tile of four costs 36 products a pair of channels instead of 144.
//   transform_input   pixels -> transformed [position][block of channels][tile][16]
//   multiply          transformed x weights [block of outputs][position][channel][16] -> sums
//   [position][tile][block][16] transform_output  sums -> outputs, with the epilogue
// A dilated convolution is an ordinary one of each of the images that its outputs a dilation apart see.
// Every sum is over the channels in their order, whatever the split: results do not depend on the number of threads.
// Thread safety: all functions. For winograd/*.cpp alone; users: winograd_kernel() in packed_kernel.h.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "libcore/backend/cpu/vector.h"
#include "libcore/backend/image_table.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {

/// A range, its end left out.
struct Range {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

/// A tile along one axis.
struct Line {
  std::int64_t in;     ///< the first pixel it sees, perhaps outside
  Range inside;        ///< of the pixels it sees, counted from the first: those in the image
  std::int64_t out;    ///< the first output; the others follow a dilation apart
  std::int64_t count;  ///< outputs that there are
};

/// What the sizes decide.
struct Plan {
  const Conv2dSizes& sizes;
  std::int64_t tile;  ///< outputs along its side: 2 or 4
  std::vector<Line> rows, columns;

  Plan(const Conv2dSizes& sizes, std::int64_t tile);

  std::int64_t positions() const { return (tile + 2) * (tile + 2); }
  std::int64_t tiles() const { return sizes.batch * tiles_of_image(); }
  std::int64_t tiles_of_image() const { return static_cast<std::int64_t>(rows.size() * columns.size()); }
  /// Channels of a group.
  std::int64_t inputs() const { return sizes.in_channels / sizes.groups; }
  std::int64_t outputs() const { return sizes.out_channels / sizes.groups; }
  std::int64_t in_blocks() const { return (sizes.in_channels + kLanes - 1) / kLanes; }
  std::int64_t out_blocks() const { return (sizes.out_channels + kLanes - 1) / kLanes; }

  struct Place {
    std::int64_t image;
    const Line &row, &column;
  };
  Place place(std::int64_t number) const {
    const auto width = static_cast<std::int64_t>(columns.size());
    const std::int64_t inside = number % tiles_of_image();
    return {number / tiles_of_image(), rows[static_cast<std::size_t>(inside / width)],
            columns[static_cast<std::size_t>(inside % width)]};
  }
};

/// Pixels as positions.
struct Transformed {
  float* data;
  Range blocks, tiles;

  /// Floats from one position to the next: an odd number of cache lines, else all positions of a tile would share a
  /// few lines of the cache.
  std::int64_t apart() const { return ((blocks.count() * tiles.count()) | 1) * kLanes; }
  /// Floats of one block at one position.
  std::int64_t block() const { return tiles.count() * kLanes; }
  std::int64_t count(std::int64_t positions) const { return positions * apart(); }
};

/// Takes `part` of the blocks and tiles of `input` (block by block, tile by tile) into positions.
void transform_input(const Plan& plan, const float* image, const Transformed& input, Range part);

/// Sums of one or two neighbouring blocks of the output.
struct Sums {
  float* data;
  std::int64_t block;   ///< of the output: the first one
  std::int64_t blocks;  ///< 1 or 2
  Range tiles;

  std::int64_t apart() const { return ((tiles.count() * blocks) | 1) * kLanes; }
};
constexpr std::int64_t kMostBlocks = 2;

/// How many blocks of the output, from `block` on and before `end`, see the same channels: 1 or 2.
std::int64_t blocks_alike(const Plan& plan, std::int64_t block, std::int64_t end);

/// REQUIRES: `sums.blocks` are alike, and `input` has their channels and tiles.
void multiply(const Plan& plan, const Transformed& input, const float* weights, const Sums& sums);

void transform_output(const Plan& plan, const ImageConv& p, const Sums& sums);

/// Weights of all blocks of the output, from (out_channels, inputs, 3, 3).
void transform_weights(const Plan& plan, const float* weight, float* packed);

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd

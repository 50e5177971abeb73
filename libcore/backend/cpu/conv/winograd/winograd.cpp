// Winograd's convolution of 3 x 3 on images in blocks, with AVX-512: which convolutions it is for, and how the work is
// split over cores and caches. What the steps are: winograd.h.
#include "libcore/backend/cpu/conv/winograd/winograd.h"

#include "libcore/backend/cpu/conv/packed_kernel.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {

namespace winograd {
namespace {

constexpr std::int64_t kTilesAtOnce = 28;      // transformed both ways by one core: all of it stays in its second cache
constexpr std::int64_t kTilesOfPart = 42;      // of those whose input all cores transform: whole pieces of the product
constexpr std::int64_t kFewestChannels = 64;   // of the groups that are taken together
constexpr std::int64_t kOwnWeights = 3 << 20;  // bytes that each core may read for itself, again and again
constexpr std::int64_t kOwnTransformed = 768 << 10;    // bytes of a core's second cache
constexpr std::int64_t kSharedTransformed = 8 << 20;   // bytes of the cache that cores share
constexpr std::int64_t kWork = std::int64_t{1} << 14;  // products of a vector that are worth a thread's start

std::int64_t up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

Range part_of(std::int64_t count, std::int64_t number, std::int64_t parts) {
  return {count * number / parts, count * (number + 1) / parts};
}

/// One axis of the convolution.
struct Axis {
  std::int64_t in, out, dilation, pad;
};

std::vector<Line> lines(const Axis& axis, std::int64_t tile) {
  std::vector<Line> result;
  for (std::int64_t phase = 0; phase < std::min(axis.dilation, axis.out); ++phase) {
    const std::int64_t count = up(axis.out - phase, axis.dilation);
    for (std::int64_t first = 0; first < count; first += tile) {
      const std::int64_t out = phase + first * axis.dilation, in = out - axis.pad;
      const std::int64_t begin = std::min(tile + 2, up(std::max<std::int64_t>(0, -in), axis.dilation));
      const std::int64_t end = std::min(tile + 2, up(std::max<std::int64_t>(0, axis.in - in), axis.dilation));
      result.push_back({in, {begin, std::max(begin, end)}, out, std::min(tile, count - first)});
    }
  }
  return result;
}

/// Groups that are taken together: whole blocks of image and output, but at the end.
struct Bundles {
  const Plan& plan;
  std::int64_t groups;  ///< of a bundle

  explicit Bundles(const Plan& of) : plan(of), groups(1) {
    while (groups < plan.sizes.groups &&
           (groups * plan.inputs() % kLanes != 0 || groups * plan.outputs() % kLanes != 0 ||
            groups * plan.inputs() < kFewestChannels)) {
      ++groups;
    }
  }
  std::int64_t count() const { return up(plan.sizes.groups, groups); }
  Range blocks(Range bundles, std::int64_t width) const {
    const std::int64_t end = std::min(bundles.end * groups, plan.sizes.groups);
    return {bundles.begin * groups * width / kLanes, up(end * width, kLanes)};
  }
  Range in_blocks(Range bundles) const { return blocks(bundles, plan.inputs()); }
  Range out_blocks(Range bundles) const { return blocks(bundles, plan.outputs()); }
};

/// Makes some blocks of the output at the tiles of `input`.
void compute_blocks(const Plan& plan, const ImageConv& p, const Transformed& input, Range blocks) {
  const std::int64_t most = plan.positions() * (input.tiles.count() * kMostBlocks + 1) * kLanes;
  auto* memory = scratch<float>(Scratch::output, most);
  for (std::int64_t block = blocks.begin; block < blocks.end;) {
    const Sums sums{memory, block, blocks_alike(plan, block, blocks.end), input.tiles};
    multiply(plan, input, p.packed, sums);
    transform_output(plan, p, sums);
    block += sums.blocks;
  }
}

/// Pieces of tiles for each bundle where each thread does its own: 0 where the cores had better share the work.
std::int64_t pieces_alone(const Plan& plan, const Bundles& bundles) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t inputs = bundles.in_blocks({0, 1}).count() * kLanes;
  const std::int64_t outputs = bundles.out_blocks({0, 1}).count() * kLanes;
  if (plan.positions() * plan.inputs() * outputs * kFloat > kOwnWeights) return 0;
  const std::int64_t threads = num_threads(), tiles = plan.tiles();
  std::int64_t pieces = up(tiles, kTilesAtOnce);
  while (pieces * bundles.count() % threads != 0 && pieces * bundles.count() < 8 * threads) ++pieces;
  if (tiles < pieces * kTilesAtOnce / 2 || plan.positions() * inputs * up(tiles, pieces) * kFloat > kOwnTransformed)
    return 0;
  return pieces;
}

std::int64_t grain(const Plan& plan, std::int64_t pieces) {
  const std::int64_t products = plan.tiles() * plan.positions() * plan.out_blocks() * plan.inputs();
  return std::max<std::int64_t>(1, kWork * pieces / std::max<std::int64_t>(1, products));
}

/// Calls visit(part, some of the blocks) for all blocks of all parts, on several threads: each does its blocks of all
/// parts, as the weights of few blocks stay in its cache, but where there are too few blocks for that.
template <class Visit>
void for_each_piece(const Plan& plan, std::int64_t parts, std::int64_t blocks, Visit visit) {
  if (parts == 1 || blocks >= 4 * num_threads()) {
    return parallel_for(blocks, grain(plan, blocks), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = 0; part < parts; ++part) visit(part, Range{begin, end});
    });
  }
  parallel_for(blocks * parts, grain(plan, blocks * parts), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t first = i % blocks, count = std::min(blocks - first, end - i);
      visit(i / blocks, Range{first, first + count});
      i += count;
    }
  });
}

void conv_alone(const Plan& plan, const ImageConv& p, const Bundles& bundles, std::int64_t pieces) {
  const std::int64_t count = bundles.count() * pieces;
  parallel_for(count, grain(plan, count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Range bundle{i / pieces, i / pieces + 1};
      Transformed input{nullptr, bundles.in_blocks(bundle), part_of(plan.tiles(), i % pieces, pieces)};
      input.data = scratch<float>(Scratch::input, input.count(plan.positions()));
      transform_input(plan, p.image, input, {0, input.blocks.count() * input.tiles.count()});
      compute_blocks(plan, p, input, bundles.out_blocks(bundle));
    }
  });
}

/// Transformed tiles, in parts of which each lies in one piece.
class TransformedParts {
 public:
  TransformedParts(const Plan& plan, Range blocks, Range tiles)
      : blocks_(blocks), tiles_(tiles), count_(up(tiles.count(), kTilesOfPart)), positions_(plan.positions()) {
    data_ = scratch<float>(Scratch::input, count_ * apart());
  }
  std::int64_t count() const { return count_; }
  Transformed operator[](std::int64_t number) const {
    const Range inside = part_of(tiles_.count(), number, count_);
    return {data_ + number * apart(), blocks_, {tiles_.begin + inside.begin, tiles_.begin + inside.end}};
  }

 private:
  std::int64_t apart() const {
    return Transformed{nullptr, blocks_, {0, up(tiles_.count(), count_)}}.count(positions_);
  }

  Range blocks_, tiles_;
  std::int64_t count_, positions_;
  float* data_;
};

/// All threads transform the input first.
void conv_together(const Plan& plan, const ImageConv& p, Range in_blocks, Range out_blocks, Range tiles) {
  const TransformedParts parts(plan, in_blocks, tiles);
  const std::int64_t transformed_blocks = in_blocks.count(), blocks = out_blocks.count();
  for_each_piece(plan, parts.count(), transformed_blocks, [&](std::int64_t part, Range some) {
    const Transformed input = parts[part];
    transform_input(plan, p.image, input, {some.begin * input.tiles.count(), some.end * input.tiles.count()});
  });
  for_each_piece(plan, parts.count(), blocks, [&](std::int64_t part, Range some) {
    compute_blocks(plan, p, parts[part], {out_blocks.begin + some.begin, out_blocks.begin + some.end});
  });
}

void conv_in_turn(const Plan& plan, const ImageConv& p, const Bundles& bundles) {
  const std::int64_t bytes = plan.positions() * kLanes * static_cast<std::int64_t>(sizeof(float));  // a block of a tile
  const std::int64_t each = bundles.in_blocks({0, 1}).count();
  const std::int64_t together = std::clamp<std::int64_t>(
      kSharedTransformed / (bytes * each * std::min(plan.tiles(), 2 * kTilesAtOnce)), 1, bundles.count());
  const std::int64_t most_tiles = std::max(kTilesAtOnce, kSharedTransformed / (bytes * each * together));
  const std::int64_t turns = up(bundles.count(), together), pieces = up(plan.tiles(), most_tiles);
  for (std::int64_t i = 0; i < turns; ++i) {
    const Range some = part_of(bundles.count(), i, turns);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      conv_together(plan, p, bundles.in_blocks(some), bundles.out_blocks(some), part_of(plan.tiles(), piece, pieces));
    }
  }
}

/// Pairs of an output and a tap that lies in the image, along one axis.
std::int64_t taps_inside(std::int64_t outputs, std::int64_t length, std::int64_t dilation, std::int64_t pad) {
  std::int64_t sum = 0;
  for (std::int64_t tap = 0; tap < 3; ++tap) {
    const std::int64_t first = std::max<std::int64_t>(0, pad - tap * dilation);
    sum += std::max<std::int64_t>(0, std::min(outputs, length + pad - tap * dilation) - first);
  }
  return sum;
}

std::int64_t tiles_along(std::int64_t outputs, std::int64_t tile, std::int64_t dilation) {
  const std::int64_t longer = outputs % dilation, length = outputs / dilation;  // phases with one output more
  return longer * up(length + 1, tile) + (dilation - longer) * up(length, tile);
}

bool has_kernel(const Conv2dSizes& s) {
  const bool is_3x3 = s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 1 && s.stride_w == 1;
  const bool in_halves = s.in_channels / s.groups % 8 == 0 && s.out_channels / s.groups % 8 == 0;
  return is_3x3 && lies_in_blocks(s.in_channels) && lies_in_blocks(s.out_channels) && (s.groups == 1 || in_halves);
}

/// The side of the tiles, 0 where other kernels are faster. Tiles of four need fewest products where they fill the
/// image, but four times the weights: where few tiles share them, reading them takes longer than multiplying. Tiles of
/// two need 1.8 times the weights. Measured on two cores with weights that were in no cache.
std::int64_t tile_for(const Conv2dSizes& s) {
  if (!has_kernel(s)) return 0;
  // Tiles that share the weights: few always read them for longer than they multiply, some where these are heavy.
  constexpr std::int64_t kFewTiles = 8, kSomeTiles = 20, kHeavy = 14 << 20, kNarrow = 32;
  const std::int64_t large = s.batch * tiles_along(s.out_h, 4, s.dilation_h) * tiles_along(s.out_w, 4, s.dilation_w);
  const std::int64_t small = s.batch * tiles_along(s.out_h, 2, s.dilation_h) * tiles_along(s.out_w, 2, s.dilation_w);
  const std::int64_t width = s.in_channels / s.groups;
  const std::int64_t weights = 36 * s.out_channels * width * std::int64_t{sizeof(float)};
  const bool is_read = large <= kFewTiles || (large <= kSomeTiles && weights > kHeavy);
  const std::int64_t tile = is_read || small * 16 <= large * 36 ? 2 : 4;
  // Each sum of few channels is soon done: then the transforms take as long.
  if (s.groups > 1 && width < kNarrow && (tile == 2 || large <= kSomeTiles)) return 0;
  const std::int64_t products = tile == 4 ? large * 36 : small * 16;
  const std::int64_t direct = s.batch * taps_inside(s.out_h, s.in_h, s.dilation_h, s.pad_top) *
                              taps_inside(s.out_w, s.in_w, s.dilation_w, s.pad_left);
  // Tiles of two that are no more than read: of the plain weights there are 9 / 16 as many. A Xeon takes 1.3 ms in
  // place of 2.0 for 512 to 512 channels of 7 x 7, and 0.8 in place of 1.0 for 384; of 256, which its second cache
  // holds, 0.35 in place of 0.33.
  constexpr std::int64_t kBeyondCache = 4 << 20;
  if (tile == 2 && is_read && weights > 4 * kBeyondCache && products * 16 > direct * 9) return 0;
  return products * 11 <= direct * 10 ? tile : 0;  // a tenth less at least, for the transforms
}

bool fits(const Conv2dSizes& s) {
  return tile_for(s) != 0;
}

PackedForm form(const Conv2dSizes& s) {
  const std::int64_t tile = tile_for(s), positions = (tile + 2) * (tile + 2);
  const std::int64_t floats = positions * up(s.out_channels, kLanes) * kLanes * (s.in_channels / s.groups);
  return {static_cast<std::size_t>(floats) * sizeof(float), tile == 4 ? "winograd 4" : "winograd 2"};
}

void pack(const ImagePack& p) {
  transform_weights(Plan(p.sizes, tile_for(p.sizes)), p.weight, p.packed);
}

void conv(const ImageConv& p) {
  const Plan plan(p.sizes, tile_for(p.sizes));
  const Bundles bundles(plan);
  const std::int64_t pieces = pieces_alone(plan, bundles);
  pieces > 0 ? conv_alone(plan, p, bundles, pieces) : conv_in_turn(plan, p, bundles);
  trim_scratch();
}

}  // namespace

Plan::Plan(const Conv2dSizes& of, std::int64_t side)
    : sizes(of),
      tile(side),
      rows(lines({of.in_h, of.out_h, of.dilation_h, of.pad_top}, side)),
      columns(lines({of.in_w, of.out_w, of.dilation_w, of.pad_left}, side)) {}

}  // namespace winograd

/// A value that is not finite reaches all outputs of its tile: at most three pixels (times the dilation) further than
/// in the definition.
PackedKernel winograd_kernel() {
  return {winograd::fits, winograd::form, winograd::pack, winograd::conv};
}

}  // namespace core::cpu::CORE_CPU_VARIANT

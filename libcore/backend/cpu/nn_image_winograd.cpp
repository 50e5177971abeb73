// Winograd's convolution of 3 x 3 on images in blocks, with AVX-512: which convolutions it is for, and how the work is
// split over cores and caches. What the steps are: nn_image_winograd.h.
#include "libcore/backend/cpu/nn_image_winograd.h"

#include <cstdlib>
#include "libcore/backend/cpu/nn_scratch.h"
#include "libcore/backend/cpu/nn_vector.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {

#if defined(__AVX512F__)

namespace winograd {
namespace {

constexpr std::int64_t kTilesAtOnce = 28;             // whose sums stay in the second cache
constexpr std::int64_t kFewestChannels = 64;          // of the groups that are taken together
constexpr std::int64_t kOwnWeights = 3 << 20;         // bytes that each core may read for itself, again and again
constexpr std::int64_t kOwnSeen = 768 << 10;          // bytes of a core's second cache
constexpr std::int64_t kSharedSeen = 8 << 20;         // bytes of the cache that cores share
constexpr std::int64_t kWork = std::int64_t{1} << 16;  // products of a vector that are worth a thread's start

std::int64_t up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

Range part_of(std::int64_t count, std::int64_t number, std::int64_t parts) {
  return {count * number / parts, count * (number + 1) / parts};
}

std::vector<Line> lines(std::int64_t length, std::int64_t tile, std::int64_t dilation, std::int64_t pad) {
  std::vector<Line> result;
  for (std::int64_t phase = 0; phase < std::min(dilation, length); ++phase) {
    const std::int64_t count = up(length - phase, dilation);
    for (std::int64_t first = 0; first < count; first += tile) {
      const std::int64_t out = phase + first * dilation;
      result.push_back({out - pad, out, std::min(tile, count - first)});
    }
  }
  return result;
}

/// Groups that are taken together: whole blocks of image and output, but at the end.
struct Bundles {
  const Plan& plan;
  std::int64_t groups;  ///< of a bundle

  explicit Bundles(const Plan& of) : plan(of), groups(1) {
    while (groups < plan.sizes.groups && (groups * plan.inputs() % kLanes != 0 ||
                                          groups * plan.outputs() % kLanes != 0 ||
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

/// Makes some blocks of the output at some tiles.
void make_blocks(const Plan& plan, const ImageConv& p, const Seen& seen, Range blocks, Range tiles) {
  const std::int64_t most = plan.positions() * (tiles.count() * kMostBlocks + 1) * kLanes;
  auto* memory = scratch<float>(Scratch::output, most);
  for (std::int64_t block = blocks.begin; block < blocks.end;) {
    const Sums sums{memory, block, blocks_alike(plan, block, blocks.end), tiles};
    multiply(plan, seen, p.prepared, sums);
    put_tiles(plan, p, sums);
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
  if (tiles < pieces * kTilesAtOnce / 2 || plan.positions() * inputs * up(tiles, pieces) * kFloat > kOwnSeen) return 0;
  return pieces;
}

std::int64_t grain(const Plan& plan, std::int64_t pieces) {
  const std::int64_t products = plan.tiles() * plan.positions() * plan.out_blocks() * plan.inputs();
  return std::max<std::int64_t>(1, kWork * pieces / std::max<std::int64_t>(1, products));
}

void conv_alone(const Plan& plan, const ImageConv& p, const Bundles& bundles, std::int64_t pieces) {
  const std::int64_t count = bundles.count() * pieces;
  parallel_for(count, grain(plan, count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Range bundle{i / pieces, i / pieces + 1};
      Seen seen{nullptr, bundles.in_blocks(bundle), part_of(plan.tiles(), i % pieces, pieces)};
      seen.data = scratch<float>(Scratch::input, seen.count(plan.positions()));
      see_tiles(plan, p.image, seen, {0, seen.blocks.count() * seen.tiles.count()});
      make_blocks(plan, p, seen, bundles.out_blocks(bundle), seen.tiles);
    }
  });
}

/// All threads first see, then make.
void conv_together(const Plan& plan, const ImageConv& p, Range in_blocks, Range out_blocks, Range tiles) {
  Seen seen{nullptr, in_blocks, tiles};
  seen.data = scratch<float>(Scratch::input, seen.count(plan.positions()));
  const std::int64_t sights = in_blocks.count() * tiles.count();
  parallel_for(sights, grain(plan, sights), [&](std::int64_t begin, std::int64_t end) {
    see_tiles(plan, p.image, seen, {begin, end});
  });
  const std::int64_t parts = up(tiles.count(), kTilesAtOnce), blocks = out_blocks.count();
  const auto part = [&](std::int64_t number) {
    const Range inside = part_of(tiles.count(), number, parts);
    return Range{tiles.begin + inside.begin, tiles.begin + inside.end};
  };
  if (parts == 1 || blocks >= 4 * num_threads()) {
    parallel_for(blocks, grain(plan, blocks), [&](std::int64_t begin, std::int64_t end) {
      const Range own{out_blocks.begin + begin, out_blocks.begin + end};
      for (std::int64_t i = 0; i < parts; ++i) make_blocks(plan, p, seen, own, part(i));
    });
    return;
  }
  parallel_for(blocks * parts, grain(plan, blocks * parts), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t first = i % blocks, count = std::min(blocks - first, end - i);
      make_blocks(plan, p, seen, {out_blocks.begin + first, out_blocks.begin + first + count}, part(i / blocks));
      i += count;
    }
  });
}

void conv_in_turn(const Plan& plan, const ImageConv& p, const Bundles& bundles) {
  const std::int64_t bytes = plan.positions() * kLanes * static_cast<std::int64_t>(sizeof(float));  // a block of a tile
  const std::int64_t each = bundles.in_blocks({0, 1}).count();
  const std::int64_t together = std::clamp<std::int64_t>(
      kSharedSeen / (bytes * each * std::min(plan.tiles(), 2 * kTilesAtOnce)), 1, bundles.count());
  const std::int64_t most_tiles = std::max(kTilesAtOnce, kSharedSeen / (bytes * each * together));
  const std::int64_t turns = up(bundles.count(), together), pieces = up(plan.tiles(), most_tiles);
  for (std::int64_t i = 0; i < turns; ++i) {
    const Range some = part_of(bundles.count(), i, turns);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      conv_together(plan, p, bundles.in_blocks(some), bundles.out_blocks(some),
                    part_of(plan.tiles(), piece, pieces));
    }
  }
}

/// The side of the tiles, 0 where other kernels are faster.
std::int64_t tile_for(const Conv2dSizes& s) {
  const bool is_3x3 = s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 1 && s.stride_w == 1;
  if (!is_3x3 || !lies_in_blocks(s.in_channels) || !lies_in_blocks(s.out_channels)) return 0;
  const std::int64_t inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  if (s.groups > 1 && (inputs % 8 != 0 || outputs % 8 != 0)) return 0;
  const char* forced = getenv("WINO");
  if (forced) return atoi(forced);
  return 4;
}

bool fits(const Conv2dSizes& s) {
  return tile_for(s) != 0;
}

PreparedForm prepared_form(const Conv2dSizes& s) {
  const std::int64_t tile = tile_for(s), positions = (tile + 2) * (tile + 2);
  const std::int64_t floats = positions * up(s.out_channels, kLanes) * kLanes * (s.in_channels / s.groups);
  return {static_cast<std::size_t>(floats) * sizeof(float), tile == 4 ? "winograd 4" : "winograd 2"};
}

void prepare(const ImagePrepare& p) {
  prepare_weights(Plan(p.sizes, tile_for(p.sizes)), p.weight, p.prepared);
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
      rows(lines(of.out_h, side, of.dilation_h, of.pad_top)),
      columns(lines(of.out_w, side, of.dilation_w, of.pad_left)) {}

}  // namespace winograd

Winograd winograd_kernels() {
  return {winograd::fits, winograd::prepared_form, winograd::prepare, winograd::conv};
}

#else

Winograd winograd_kernels() {
  return {[](const Conv2dSizes&) { return false; }, nullptr, nullptr, nullptr};
}

#endif

}  // namespace core::cpu::CORE_CPU_VARIANT

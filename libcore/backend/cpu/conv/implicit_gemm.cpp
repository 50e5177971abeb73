// Convolution of images in blocks as a product of matrices: a tile of up to 14 neighbouring pixels by a panel of two
// blocks of output channels stays in registers, while the channels of the image pass, those under one tap of the kernel
// after those under another. What a group of tiles sees is packed first, so that the rows of a tile lie together
// (blocks of an image may be apart by multiples of 4096 bytes, which the first cache takes badly), borders and strides
// cost nothing in the loop, and a tap that does not meet the image is left out. Depth is taken in chunks, whose weights
// for a panel stay in the first cache for all tiles of the group. Sums go on in the output between chunks. So each
// output is one sum in one order: results do not depend on the number of threads.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "libcore/backend/cpu/conv/epilogue.h"
#include "libcore/backend/cpu/conv/packed_kernel.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector_math.h"

namespace core::cpu::CORE_CPU_VARIANT {

namespace {

/// Of a tile: by two vectors 28 of 32 registers, two for the factors of a channel and one for a pixel's number in all
/// lanes. Each load of a factor serves 14 products, which keeps two 512-bit multipliers busy to 94 to 98 %, where
/// oneDNN's kernel for one tap reads every number of the image from memory for each product and reaches 60 to 95.
constexpr std::int64_t kMostPixels = 14;
constexpr std::int64_t kStep = 4;  // channels at a time, to which depth is filled up: the loop's own work counts less
/// Blocks of a chunk: 256 channels by 32 outputs are 32 KiB of weights, which stay in the first cache for all tiles.
constexpr std::int64_t kChunkBlocks = 16;
constexpr std::int64_t kSoon = 32;                 // floats of the next weights asked for in a step
constexpr std::int64_t kPackedFloats = 96 * 1024;  // that a group of tiles sees at a time: of the second cache

std::int64_t blocks_of(std::int64_t channels) {
  return (channels + kLanes - 1) / kLanes;
}
std::int64_t panels_of(const Conv2dSizes& s) {
  return (blocks_of(s.out_channels) + 1) / 2;
}
std::int64_t taps_of(const Conv2dSizes& s) {
  return s.kernel_h * s.kernel_w;
}
/// Channels under one tap.
std::int64_t depth_of(const Conv2dSizes& s) {
  return (s.in_channels + kStep - 1) / kStep * kStep;
}
std::int64_t out_plane(const Conv2dSizes& s) {
  return s.out_h * s.out_w;
}
std::int64_t tiles_of_image(const Conv2dSizes& s) {
  return (out_plane(s) + kMostPixels - 1) / kMostPixels;
}
bool is_packed(const Conv2dSizes& s) {
  const bool as_it_lies = taps_of(s) == 1 && s.stride_h == 1 && s.stride_w == 1 && s.in_h == s.out_h &&
                          s.in_w == s.out_w && s.pad_top == 0 && s.pad_left == 0;
  constexpr std::int64_t kFewPanels = 2;  // which read what was packed too seldom to repay it
  return !as_it_lies || panels_of(s) > kFewPanels;
}

/// Neighbouring pixels of an output. Tiles of an image differ by one pixel at most.
struct Tile {
  std::int64_t image, first, pixels;

  Tile(const Conv2dSizes& s, std::int64_t number) : image(number / tiles_of_image(s)) {
    const std::int64_t i = number % tiles_of_image(s);
    first = out_plane(s) * i / tiles_of_image(s);
    pixels = out_plane(s) * (i + 1) / tiles_of_image(s) - first;
  }
};

/// Neighbouring blocks of the image under one tap.
struct Chunk {
  std::int64_t number, tap, first, blocks, depth;

  static std::int64_t each_tap(const Conv2dSizes& s) {
    return (blocks_of(s.in_channels) + kChunkBlocks - 1) / kChunkBlocks;
  }
  static std::int64_t count(const Conv2dSizes& s) { return taps_of(s) * each_tap(s); }

  Chunk(const Conv2dSizes& s, std::int64_t n) : number(n), tap(number / each_tap(s)) {
    const std::int64_t i = number % each_tap(s), all = blocks_of(s.in_channels);
    first = all * i / each_tap(s);
    blocks = all * (i + 1) / each_tap(s) - first;
    depth = std::min(depth_of(s), (first + blocks) * kLanes) - first * kLanes;
  }
};

/// Of both blocks of a panel.
struct Epilogues {
  Epilogue of[2];
  Epilogues(const ImageConv& p, std::int64_t panel) : of{{p, 2 * panel}, {p, 2 * panel + 1}} {}
};

/// A tile by a panel over one chunk.
struct Product {
  const float* in;          ///< first pixel; the next ones follow
  std::int64_t next_block;  ///< floats to the next block of channels
  const float* weight;
  std::int64_t depth;
  const float* soon;           ///< weights that are wanted next
  bool fresh;                  ///< or sums go on with what is in `out`
  float* out;                  ///< first pixel of the first block
  std::int64_t next_out;       ///< floats to the second block
  const float* addend;         ///< as `out`, or null
  const Epilogues* epilogues;  ///< null if more is to come
};

template <int kPixels, int kVectors>
void multiply(const Product& p) {
  Floats sums[kVectors][kPixels] = {};
  if (!p.fresh) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 32
      for (int i = 0; i < kPixels; ++i) sums[v][i] = load<Floats>(p.out + v * p.next_out + i * kLanes);
    }
  }
  const float *weight = p.weight, *block = p.in, *soon = p.soon;
  for (std::int64_t left = p.depth; left > 0; left -= kLanes, block += p.next_block) {
    const float* const end = block + std::min(left, kLanes);
    for (const float* in = block; in != end; in += kStep, weight += kStep * kVectors * kLanes, soon += kSoon) {
      __builtin_prefetch(soon, 0, 2);
      __builtin_prefetch(soon + kLanes, 0, 2);
#pragma GCC unroll 4
      for (int k = 0; k < static_cast<int>(kStep); ++k) {
        Floats factors[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) factors[v] = load<Floats>(weight + (k * kVectors + v) * kLanes);
#pragma GCC unroll 32
        for (int i = 0; i < kPixels; ++i) {
          const Floats value = in[i * kLanes + k] - Floats{};  // in all lanes
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sums[v][i] += value * factors[v];
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int v = 0; v < kVectors; ++v) {
    float* out = p.out + v * p.next_out;
    const float* addend = p.addend != nullptr ? p.addend + v * p.next_out : nullptr;
#pragma GCC unroll 32
    for (int i = 0; i < kPixels; ++i) {
      if (p.epilogues == nullptr) {
        store(out + i * kLanes, sums[v][i]);
      } else {
        p.epilogues->of[v].put(sums[v][i], addend != nullptr ? addend + i * kLanes : nullptr, out + i * kLanes);
      }
    }
    if (p.epilogues != nullptr) p.epilogues->of[v].smooth(out, kPixels);
  }
}

using Multiply = void (*)(const Product&);

template <int... kPixels>
constexpr std::array<std::array<Multiply, 2>, sizeof...(kPixels)> all_kernels(std::integer_sequence<int, kPixels...>) {
  return {{{multiply<kPixels + 1, 1>, multiply<kPixels + 1, 2>}...}};
}
constexpr auto kKernels = all_kernels(std::make_integer_sequence<int, kMostPixels>());

struct Range {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

/// What a tile meets of the image under a tap.
struct Seen {
  std::array<std::int64_t, kMostPixels> from;  ///< the place in the image, or -1
  Range pixels{0, 0};                          ///< of the tile: those that meet the image, and those between them

  Seen(const Conv2dSizes& s, const Tile& tile, std::int64_t tap) {
    const std::int64_t top = tap / s.kernel_w * s.dilation_h - s.pad_top;
    const std::int64_t left = tap % s.kernel_w * s.dilation_w - s.pad_left;
    std::int64_t column = tile.first % s.out_w;
    std::int64_t y = tile.first / s.out_w * s.stride_h + top, x = column * s.stride_w + left;
    for (std::int64_t i = 0; i < tile.pixels; ++i) {
      const bool inside = y >= 0 && y < s.in_h && x >= 0 && x < s.in_w;
      from[static_cast<std::size_t>(i)] = inside ? y * s.in_w + x : -1;
      if (inside) pixels = {pixels.count() == 0 ? i : pixels.begin, i + 1};
      x += s.stride_w;
      if (++column == s.out_w) column = 0, x = left, y += s.stride_h;
    }
  }
};

/// Where a pixel of an image begins in a block of it.
const float* place(const Conv2dSizes& s, std::int64_t image, std::int64_t block, std::int64_t pixel, const float* in) {
  return in + ((image * blocks_of(s.in_channels) + block) * s.in_h * s.in_w + pixel) * kLanes;
}

int vectors_of(const Conv2dSizes& s, std::int64_t panel) {
  return static_cast<int>(std::min<std::int64_t>(2, blocks_of(s.out_channels) - 2 * panel));
}

const float* weight_of(const ImageConv& p, std::int64_t panel, const Chunk& chunk) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t before = panel * 2 * taps_of(s) * depth_of(s);
  const std::int64_t row = chunk.tap * depth_of(s) + chunk.first * kLanes;
  return p.packed + (before + row * vectors_of(s, panel)) * kLanes;
}

/// How many times as long as with even pieces `count` pieces take on the threads there are.
double unevenness(std::int64_t count) {
  const std::int64_t threads = num_threads(), most = (count + threads - 1) / threads;
  return static_cast<double>(most * threads) / static_cast<double>(count);
}

/// Whether threads share out the panels, or the tiles: where weights are many beside the pixels, each is better read by
/// one thread alone.
bool splits_panels(const Conv2dSizes& s) {
  constexpr std::int64_t kFewTiles = 16, kManyTaps = 9;
  constexpr double kWorth = 0.05;  // of the time, that weights read by one thread alone save
  const std::int64_t tiles = s.batch * tiles_of_image(s);
  return (tiles <= kFewTiles || taps_of(s) > kManyTaps) && unevenness(panels_of(s)) <= unevenness(tiles) + kWorth;
}

/// The pixels seen: (block, pixel, lane). Returns the end of it.
float* pack_seen(const ImageConv& p, const Tile& tile, const Seen& seen, const Chunk& chunk, float* out) {
  const std::int64_t plane = p.sizes.in_h * p.sizes.in_w;
  const float* image = place(p.sizes, tile.image, chunk.first, 0, p.image);
  for (std::int64_t block = 0; block < chunk.blocks; ++block, image += plane * kLanes) {
    for (std::int64_t i = seen.pixels.begin; i < seen.pixels.end; ++i, out += kLanes) {
      const std::int64_t from = seen.from[static_cast<std::size_t>(i)];
      Floats x{};
      if (from >= 0) x = load<Floats>(image + from * kLanes);
      store(out, x);
    }
  }
  return out;
}

/// Computes some tiles by some panels, on one thread.
class Work {
 public:
  Work(const ImageConv& p, Range panels) : p_(p), panels_(panels), packed_(is_packed(s_)) {
    longest_ = Chunk(s_, Chunk::count(s_) - 1).blocks * kLanes * kMostPixels;
    if (packed_) room_ = scratch<float>(Scratch::input, std::max(kPackedFloats, longest_));
  }

  /// In groups as even as possible.
  void run(Range tiles) {
    const std::int64_t most = std::max<std::int64_t>(1, kPackedFloats / longest_);
    const std::int64_t groups = (tiles.count() + most - 1) / most;
    for (std::int64_t i = 0; i < groups; ++i) {
      group({tiles.begin + tiles.count() * i / groups, tiles.begin + tiles.count() * (i + 1) / groups});
    }
  }

 private:
  /// A tile, or some pixels of it, by a chunk. Without a depth it makes zeros or does the epilogue of what is there.
  struct Step {
    Chunk chunk;
    std::int64_t image, first, pixels;
    const float* in;
    std::int64_t depth;
    bool fresh, last;
    std::int64_t number;  ///< among those of the chunk, about
  };

  void group(Range tiles) {
    const std::int64_t all = Chunk::count(s_);
    const std::int64_t together = std::max<std::int64_t>(1, kPackedFloats / (tiles.count() * longest_));
    for (std::int64_t begin = 0; begin < all; begin += together) {
      list_steps(tiles, {begin, std::min(all, begin + together)});
      for (std::int64_t panel = panels_.begin; panel < panels_.end; ++panel) {
        const Epilogues epilogues(p_, panel);
        for (std::size_t i = 0; i < steps_.size(); ++i) run_step(i, panel, epilogues);
      }
    }
  }

  void list_steps(Range tiles, Range chunks) {
    steps_.clear();
    float* room = room_;
    for (std::int64_t c = chunks.begin; c < chunks.end; ++c) {
      const Chunk chunk(s_, c);
      const std::size_t first = steps_.size();
      for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
        const Tile tile(s_, i);
        Step step{.chunk = chunk,
                  .image = tile.image,
                  .first = tile.first,
                  .pixels = tile.pixels,
                  .in = nullptr,
                  .depth = chunk.depth,
                  .fresh = c == 0,
                  .last = c + 1 == Chunk::count(s_),
                  .number = static_cast<std::int64_t>(steps_.size() - first)};
        if (packed_) {
          room = list_packed(step, tile, room);
        } else {
          step.in = place(s_, tile.image, chunk.first, tile.first, p_.image);
          steps_.push_back(step);
        }
      }
    }
  }

  /// Of a tile of which not every pixel meets the image, those that do. Returns the end of what was packed.
  float* list_packed(Step step, const Tile& tile, float* room) {
    const Seen seen(s_, tile, step.chunk.tap);
    const bool whole = seen.pixels.count() == tile.pixels, first = step.fresh, last = step.last;
    Step rest = step;
    rest.depth = 0;
    if (!whole) step.fresh = step.last = false;
    if (!whole && first) {
      rest.last = false;
      steps_.push_back(rest);
    }
    step.in = room;
    step.first += seen.pixels.begin;
    step.pixels = seen.pixels.count();
    if (step.pixels > 0) steps_.push_back(step);
    if (!whole && last) {
      rest.fresh = false, rest.last = true;
      steps_.push_back(rest);
    }
    return pack_seen(p_, tile, seen, step.chunk, room);
  }

  void run_step(std::size_t i, std::int64_t panel, const Epilogues& epilogues) const {
    const Step& step = steps_[i];
    const int vectors = vectors_of(s_, panel);
    const std::int64_t at = (step.image * blocks_of(s_.out_channels) + 2 * panel) * out_plane(s_) + step.first;
    const float* weight = weight_of(p_, panel, step.chunk);
    kKernels[static_cast<std::size_t>(step.pixels - 1)][static_cast<std::size_t>(vectors - 1)](
        {.in = step.in,
         .next_block = (packed_ ? step.pixels : s_.in_h * s_.in_w) * kLanes,
         .weight = weight,
         .depth = step.depth,
         .soon = soon(i, panel, weight),
         .fresh = step.fresh,
         .out = p_.output + at * kLanes,
         .next_out = out_plane(s_) * kLanes,
         .addend = p_.epilogue.addend != nullptr ? p_.epilogue.addend + at * kLanes : nullptr,
         .epilogues = step.last ? &epilogues : nullptr});
  }

  /// Part of the weights that follow those of step i.
  const float* soon(std::size_t i, std::int64_t panel, const float* weight) const {
    const Step& step = steps_[i];
    const std::int64_t each = step.chunk.depth / kStep * kSoon;
    if (step.number * each >= step.chunk.depth * vectors_of(s_, panel) * kLanes) return weight;
    const float* next = weight + step.chunk.depth * vectors_of(s_, panel) * kLanes;
    if (steps_.back().chunk.number == step.chunk.number && panel + 1 < panels_.end) {
      next = weight_of(p_, panel + 1, steps_.front().chunk);
    }
    return next + step.number * each;
  }

  const ImageConv& p_;
  const Conv2dSizes& s_ = p_.sizes;
  Range panels_;
  bool packed_;
  std::int64_t longest_;  ///< floats that a tile may see of a chunk
  float* room_ = nullptr;
  std::vector<Step> steps_;
};

void conv(const ImageConv& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t tiles = s.batch * tiles_of_image(s), panels = panels_of(s);
  constexpr std::int64_t kWork = 32768;  // vectors multiplied that are worth a thread's start
  const std::int64_t depth = taps_of(s) * depth_of(s);
  if (splits_panels(s)) {
    parallel_for(panels, 1 + kWork / (tiles * kMostPixels * 2 * depth), [&](std::int64_t begin, std::int64_t end) {
      Work(p, {begin, end}).run({0, tiles});
    });
  } else {
    parallel_for(tiles, 1 + kWork / (panels * kMostPixels * 2 * depth), [&](std::int64_t begin, std::int64_t end) {
      Work(p, {0, panels}).run({begin, end});
    });
  }
}

/// Measured against oneDNN 2.6 on Zen 5: with several taps at stride 1 that is as fast, and on images of few channels.
/// With one tap ours is up to 2.6 times as fast, with strides 1.05 to 1.4 times; of dilated ones it leaves out taps
/// that meet nothing, and oneDNN has only its reference code for padding as wide as the image.
bool fits(const Conv2dSizes& s) {
  if (s.groups != 1 || !lies_in_blocks(s.in_channels) || !lies_in_blocks(s.out_channels)) return false;
  if (taps_of(s) == 1 || s.dilation_h > 1 || s.dilation_w > 1) return true;
  constexpr std::int64_t kManyChannels = 128, kSomeChannels = 32, kFewPixels = 64;
  constexpr std::int64_t kHeavy = 1 << 20;  // weights, where this reads them faster than oneDNN's kernel multiplies
  if (s.stride_h * s.stride_w == 1 && taps_of(s) == 9 && s.in_channels * s.out_channels * taps_of(s) > kHeavy) {
    return s.batch * out_plane(s) <= 4 * kFewPixels;
  }
  const bool is_strided = s.stride_h > 1 || s.stride_w > 1;
  return is_strided && s.in_channels >= (out_plane(s) <= kFewPixels ? kSomeChannels : kManyChannels);
}

PackedForm form(const Conv2dSizes& s) {
  const std::int64_t floats = blocks_of(s.out_channels) * kLanes * taps_of(s) * depth_of(s);
  return {static_cast<std::size_t>(floats) * sizeof(float), "implicit gemm"};
}

/// weight (out, in, kh, kw) to (panel, kh, kw, in, lane of two blocks).
void pack(const ImagePack& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t taps = taps_of(s), depth = depth_of(s);
  parallel_for(panels_of(s), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t lanes = vectors_of(s, panel) * kLanes, first = panel * 2 * kLanes;
      float* to = p.packed + panel * 2 * kLanes * taps * depth;
      for (std::int64_t i = 0; i < taps * depth; ++i) {
        const std::int64_t tap = i / depth, c = i % depth;
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          const bool there = c < s.in_channels && first + lane < s.out_channels;
          *to++ = there ? p.weight[((first + lane) * s.in_channels + c) * taps + tap] : 0.0F;
        }
      }
    }
  });
}

}  // namespace

PackedKernel implicit_gemm_kernel() {
  return {fits, form, pack, conv};
}

}  // namespace core::cpu::CORE_CPU_VARIANT

// Convolution of 3 x 3 in groups of 2, 4 or 8 channels, on images in blocks: a block of sixteen channels holds several
// groups, and a vector that holds each group's i-th channel in all lanes of the group meets the weights of the i-th
// channel of all outputs. So nothing is multiplied by the zeros that wider groups would have. AVX-512 alone: elsewhere
// oneDNN's wider groups are as fast. Groups of 24, 40, ... channels end in the middle of a block: each block of the
// output sees the channels of the group or of the two groups it has a part of.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "libcore/backend/cpu/conv/epilogue.h"
#include "libcore/backend/cpu/conv/packed_kernel.h"
#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {

namespace {

constexpr std::int64_t kSide = 3;  // of the kernel
constexpr std::int64_t kTaps = kSide * kSide;
constexpr std::int64_t kBandRows =
    14;  // of the output: a piece of work, whose input with its border stays in the cache

std::int64_t group_width(const Conv2dSizes& s) {
  return s.in_channels / s.groups;
}
std::int64_t blocks_of(const Conv2dSizes& s) {
  return (s.out_channels + kLanes - 1) / kLanes;
}

/// In every lane the i-th channel of the lane's group.
template <int kWidth, int kNumber, std::size_t... kLane>
CORE_INLINE Floats member_of(const Floats& x, std::index_sequence<kLane...>) {
  return __builtin_shuffle(x, Ints{(static_cast<int>(kLane) / kWidth * kWidth + kNumber)...});
}

template <class Visit, int... kNumber>
CORE_INLINE void for_numbers(const Visit& visit, std::integer_sequence<int, kNumber...>) {
  (visit(std::integral_constant<int, kNumber>()), ...);
}

/// Adds what kPixels neighbouring outputs see. in: the first one's first tap; weight: (kh, kw, i, lane).
template <int kWidth, int kStride, int kPixels>
CORE_INLINE void add_taps(const float* in, std::int64_t row, const float* weight, Floats (&sums)[kPixels]) {
  constexpr int kSeen = (kPixels - 1) * kStride + static_cast<int>(kSide);
  for (std::int64_t kh = 0; kh < kSide; ++kh, in += row, weight += kSide * kWidth * kLanes) {
#pragma GCC unroll 32
    for (int pixel = 0; pixel < kSeen; ++pixel) {
      Floats x = load<Floats>(in + pixel * kLanes);
      const auto add = [&]<int kNumber>(std::integral_constant<int, kNumber>) __attribute__((always_inline)) {
        const Floats values = member_of<kWidth, kNumber>(x, std::make_index_sequence<kLanes>());
#pragma GCC unroll 3
        for (int kw = 0; kw < static_cast<int>(kSide); ++kw) {
          const int to = pixel - kw;
          if (to < 0 || to % kStride != 0 || to / kStride >= kPixels) continue;
          Floats factors = load<Floats>(weight + (kw * kWidth + kNumber) * kLanes);
          sums[to / kStride] += values * factors;
        }
      };
      for_numbers(add, std::make_integer_sequence<int, kWidth>());
    }
  }
}

/// One row of the output, from an image with its border.
struct Row {
  const float* in;     ///< the first output's first tap
  std::int64_t apart;  ///< of the rows of `in`
  const float* weight;
  const Epilogue& epilogue;
  const float* addend;  ///< of the row, or null
  float* out;           ///< the row

  CORE_INLINE void put(const Floats& sums, std::int64_t x) const {
    epilogue.put(sums, addend != nullptr ? addend + x * kLanes : nullptr, out + x * kLanes);
  }
};

template <int kWidth, int kStride, int kPixels>
void some_pixels(const Row& row, std::int64_t x) {
  Floats sums[kPixels] = {};
  add_taps<kWidth, kStride, kPixels>(row.in + x * kStride * kLanes, row.apart, row.weight, sums);
  for (int i = 0; i < kPixels; ++i) row.put(sums[i], x + i);
}

/// Seven pixels at once: each vector of weights that is loaded serves seven, and the sums, with what the pixels' taps
/// need, fit the registers.
template <int kWidth, int kStride>
void conv_row(const Row& row, std::int64_t width) {
  std::int64_t x = 0;
  for (; x + 7 <= width; x += 7) some_pixels<kWidth, kStride, 7>(row, x);
  for (; x + 3 <= width; x += 3) some_pixels<kWidth, kStride, 3>(row, x);
  for (; x < width; ++x) some_pixels<kWidth, kStride, 1>(row, x);
  row.epilogue.smooth(row.out, width);
}

using ConvRow = void (*)(const Row&, std::int64_t width);

ConvRow row_kernel(const Conv2dSizes& s) {
  const bool dense = s.stride_h == 1;
  switch (group_width(s)) {
    case 2:
      return dense ? conv_row<2, 1> : conv_row<2, 2>;
    case 4:
      return dense ? conv_row<4, 1> : conv_row<4, 2>;
    default:
      return dense ? conv_row<8, 1> : conv_row<8, 2>;
  }
}

/// Some rows of an image's block with a border of zeros.
struct Bordered {
  const float* block;
  std::int64_t first, rows, width;
};

void put_bordered(const Conv2dSizes& s, const Bordered& p, float* out) {
  for (std::int64_t y = 0; y < p.rows; ++y) {
    float* line = out + y * p.width * kLanes;
    const std::int64_t h = p.first + y;
    if (h < 0 || h >= s.in_h) {
      std::fill_n(line, p.width * kLanes, 0.0F);
      continue;
    }
    const std::int64_t seen = std::min(s.in_w, p.width - s.pad_left);
    std::fill_n(line, s.pad_left * kLanes, 0.0F);
    std::copy_n(p.block + h * s.in_w * kLanes, seen * kLanes, line + s.pad_left * kLanes);
    std::fill_n(line + (s.pad_left + seen) * kLanes, (p.width - s.pad_left - seen) * kLanes, 0.0F);
  }
}

/// The addend of a block of the output, or null.
const float* addend_of(const ImageConv& p, std::int64_t number) {
  return p.epilogue.addend != nullptr ? p.epilogue.addend + number * p.sizes.out_h * p.sizes.out_w * kLanes : nullptr;
}

/// Two neighbouring groups that end with a block, or the last one alone: the blocks of image and output they lie in.
struct Cluster {
  std::int64_t first;   ///< block
  std::int64_t blocks;  ///< of which the last may be a part

  Cluster(const Conv2dSizes& s, std::int64_t number)
      : first(number * group_width(s) / 8), blocks(std::min(group_width(s) / 8, blocks_of(s) - first)) {}
};

std::int64_t clusters_of(const Conv2dSizes& s) {
  return (s.groups + 1) / 2;
}

/// Channels that a block of the output sees.
struct Seen {
  std::int64_t begin, end;

  Seen(const Conv2dSizes& s, std::int64_t block) {
    const std::int64_t width = group_width(s), last = std::min((block + 1) * kLanes, s.in_channels) - 1;
    begin = block * kLanes / width * width;
    end = (last / width + 1) * width;
  }
  std::int64_t weights() const { return kTaps * (end - begin) * kLanes; }
};

/// Where the weights of a block of the output begin.
std::int64_t weights_before(const Conv2dSizes& s, std::int64_t block) {
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < block; ++b) sum += Seen(s, b).weights();
  return sum;
}

/// One row of a block of the output, from several blocks of the image.
struct WideRow {
  Row row;
  std::int64_t next_block;  ///< floats from one block of the image to the next
  std::int64_t begin, end;  ///< channels, counted from the first of `row.in`
  std::int64_t stride;
};

template <int kPixels>
void some_pixels_of(const WideRow& wide, std::int64_t x) {
  const Row& row = wide.row;
  const std::int64_t step = wide.stride * kLanes;
  Floats sums[kPixels] = {};
  const float* weight = row.weight;
  for (std::int64_t kh = 0; kh < kSide; ++kh) {
    for (std::int64_t c = wide.begin; c < wide.end; ++c) {
      const float* in = row.in + kh * row.apart + c / kLanes * wide.next_block + c % kLanes + x * step;
      for (std::int64_t kw = 0; kw < kSide; ++kw, weight += kLanes, in += kLanes) {
        Floats factors = load<Floats>(weight);
#pragma GCC unroll 14
        for (int i = 0; i < kPixels; ++i) sums[i] += in[i * step] * factors;
      }
    }
  }
  for (int i = 0; i < kPixels; ++i) row.put(sums[i], x + i);
}

/// Fourteen pixels at once, as here a pixel's number comes from memory as part of the multiplication and takes no
/// register: then the one load of weights is what counts.
void wide_row(const WideRow& row, std::int64_t width) {
  std::int64_t x = 0;
  for (; x + 14 <= width; x += 14) some_pixels_of<14>(row, x);
  for (; x + 7 <= width; x += 7) some_pixels_of<7>(row, x);
  for (; x + 3 <= width; x += 3) some_pixels_of<3>(row, x);
  for (; x < width; ++x) some_pixels_of<1>(row, x);
  row.row.epilogue.smooth(row.row.out, width);
}

/// Rows begin .. end of a cluster of image `number`.
void wide_band(const ImageConv& p, std::int64_t number, const Cluster& cluster, std::int64_t begin, std::int64_t end) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t rows = (end - begin - 1) * s.stride_h + kSide, width = (s.out_w - 1) * s.stride_w + kSide;
  const std::int64_t first = number * blocks_of(s) + cluster.first, size = rows * width * kLanes;
  auto* in = scratch<float>(Scratch::input, cluster.blocks * size);
  for (std::int64_t b = 0; b < cluster.blocks; ++b) {
    const float* block = p.image + (first + b) * s.in_h * s.in_w * kLanes;
    put_bordered(s, {block, begin * s.stride_h - s.pad_top, rows, width}, in + b * size);
  }
  const float* weight = p.packed + weights_before(s, cluster.first);
  for (std::int64_t b = 0; b < cluster.blocks; ++b) {
    const Seen seen(s, cluster.first + b);
    const Epilogue epilogue(p, cluster.first + b);
    const float* addend = addend_of(p, first + b);
    float* out = p.output + (first + b) * s.out_h * s.out_w * kLanes;
    for (std::int64_t y = begin; y < end; ++y) {
      const float* line = in + (y - begin) * s.stride_h * width * kLanes;
      const std::int64_t at = y * s.out_w * kLanes;
      wide_row({.row = {line, width * kLanes, weight, epilogue, addend != nullptr ? addend + at : nullptr, out + at},
                .next_block = size,
                .begin = seen.begin - cluster.first * kLanes,
                .end = seen.end - cluster.first * kLanes,
                .stride = s.stride_w},
               s.out_w);
    }
    weight += seen.weights();
  }
}

bool is_wide(const Conv2dSizes& s) {
  return group_width(s) > kLanes;
}

void wide_conv(const ImageConv& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t most_rows = group_width(s) > 64 ? kBandRows / 2 : kBandRows;
  const std::int64_t bands = (s.out_h + most_rows - 1) / most_rows, clusters = clusters_of(s);
  parallel_for(s.batch * clusters * bands, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % bands * most_rows;
      wide_band(p, i / bands / clusters, Cluster(s, i / bands % clusters), first, std::min(first + most_rows, s.out_h));
    }
  });
}

/// weight (channels, width, kh, kw) to (block, kh, channel seen, kw, lane).
void wide_pack(const ImagePack& p) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t width = group_width(s);
  float* to = p.packed;
  for (std::int64_t block = 0; block < blocks_of(s); ++block) {
    const Seen seen(s, block);
    for (std::int64_t i = 0; i < seen.weights(); ++i) {
      const std::int64_t out = block * kLanes + i % kLanes, kw = i / kLanes % kSide;
      const std::int64_t c = i / kLanes / kSide % (seen.end - seen.begin) + seen.begin;
      const std::int64_t kh = i / kLanes / kSide / (seen.end - seen.begin);
      const bool belongs = out < s.out_channels && out / width == c / width;
      *to++ = belongs ? p.weight[((out * width + c % width) * kSide + kh) * kSide + kw] : 0.0F;
    }
  }
}

/// Rows begin .. end of block `number` of all images' blocks.
void conv_band(const ImageConv& p, ConvRow kernel, std::int64_t number, std::int64_t begin, std::int64_t end) {
  const Conv2dSizes& s = p.sizes;
  const std::int64_t block = number % blocks_of(s);
  const std::int64_t rows = (end - begin - 1) * s.stride_h + kSide, width = (s.out_w - 1) * s.stride_w + kSide;
  const float* image = p.image + number * s.in_h * s.in_w * kLanes;
  auto* in = scratch<float>(Scratch::input, rows * width * kLanes);
  put_bordered(s, {image, begin * s.stride_h - s.pad_top, rows, width}, in);
  const Epilogue epilogue(p, block);
  const float* addend = addend_of(p, number);
  for (std::int64_t y = begin; y < end; ++y) {
    kernel({.in = in + (y - begin) * s.stride_h * width * kLanes,
            .apart = width * kLanes,
            .weight = p.packed + block * kTaps * group_width(s) * kLanes,
            .epilogue = epilogue,
            .addend = addend != nullptr ? addend + y * s.out_w * kLanes : nullptr,
            .out = p.output + (number * s.out_h + y) * s.out_w * kLanes},
           s.out_w);
  }
}

bool fits(const Conv2dSizes& s) {
  if (s.groups <= 1 || s.in_channels != s.out_channels || !lies_in_blocks(s.in_channels)) return false;
  const std::int64_t width = group_width(s);
  constexpr std::int64_t kWidest = 256;  // from there on the blocks of several groups do not fit the cache
  const bool ends_in_a_block = width > kLanes && width < kWidest && width % kLanes == 8;
  return (width == 2 || width == 4 || width == 8 || ends_in_a_block) && s.kernel_h == kSide && s.kernel_w == kSide &&
         s.stride_h == s.stride_w && s.stride_h <= 2 && s.dilation_h == 1 && s.dilation_w == 1 && s.pad_left < kSide &&
         s.pad_top < kSide;
}

PackedForm form(const Conv2dSizes& s) {
  const std::int64_t floats =
      is_wide(s) ? weights_before(s, blocks_of(s)) : blocks_of(s) * kTaps * group_width(s) * kLanes;
  return {static_cast<std::size_t>(floats) * sizeof(float), "direct"};
}

/// weight (channels, width, kh, kw) to (block, kh, kw, width, lane).
void pack(const ImagePack& p) {
  if (is_wide(p.sizes)) return wide_pack(p);
  const std::int64_t width = group_width(p.sizes), row = kTaps * width;
  std::fill_n(p.packed, blocks_of(p.sizes) * row * kLanes, 0.0F);
  for (std::int64_t channel = 0; channel < p.sizes.out_channels; ++channel) {
    float* to = p.packed + channel / kLanes * row * kLanes + channel % kLanes;
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t tap = 0; tap < kTaps; ++tap) {
        to[(tap * width + i) * kLanes] = p.weight[(channel * width + i) * kTaps + tap];
      }
    }
  }
}

void conv(const ImageConv& p) {
  if (is_wide(p.sizes)) return wide_conv(p);
  const Conv2dSizes& s = p.sizes;
  const ConvRow kernel = row_kernel(s);
  constexpr std::int64_t kWork = 16384;  // vectors multiplied that are worth a thread's start
  const std::int64_t bands = (s.out_h + kBandRows - 1) / kBandRows;
  const std::int64_t vectors = std::min(kBandRows, s.out_h) * s.out_w * kTaps * group_width(s);
  parallel_for(s.batch * blocks_of(s) * bands, 1 + kWork / vectors, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % bands * kBandRows;
      conv_band(p, kernel, i / bands, first, std::min(first + kBandRows, s.out_h));
    }
  });
}

}  // namespace

PackedKernel direct_kernel() {
  return {fits, form, pack, conv};
}

}  // namespace core::cpu::CORE_CPU_VARIANT

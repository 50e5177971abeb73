// Kernels on images in blocks of channels, but pooling and convolution. Work is split so that each result is computed
// by one thread in one order: results do not depend on the number of threads.
#include "libcore/backend/cpu/variants.h"

#include <algorithm>
#include <type_traits>

#include "libcore/backend/cpu/conv/epilogue.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kWork = 32768;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// Calls visit(number of the block) for all blocks, on several threads.
template <class Visit>
void for_each_block(const ImageShape& s, Visit visit) {
  parallel_for(s.batch * s.blocks(), grain_for(s.plane * kLanes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) visit(block);
  });
}

/// Where a block lies in blocks and in ordinary order.
struct BlockPlace {
  std::int64_t in_blocks, in_order;
  std::int64_t channels;  ///< that are there
  BlockPlace(const ImageShape& s, std::int64_t block) {
    const std::int64_t n = block / s.blocks(), first = block % s.blocks() * kLanes;
    in_blocks = block * s.plane * kLanes;
    in_order = (n * s.channels + first) * s.plane;
    channels = std::min(kLanes, s.channels - first);
  }
};

constexpr std::int64_t kSide = kWidth<float>;  // of the squares that are turned in registers

/// kSide pixels of a block, of the channels that are there.
template <class Count>
CORE_INLINE void block_of_rows(const float* in, std::int64_t plane, Count channels, float* out) {
  for (std::int64_t group = 0; group < kLanes; group += kSide) {
    Vector<float> rows[kSide];
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) {
      rows[i] = Vector<float>{};
      if (group + i < channels) rows[i] = load(in + (group + i) * plane);
    }
    transpose<float>(rows);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) store(out + i * kLanes + group, rows[i]);
  }
}

template <class Count>
CORE_INLINE void rows_of_block(const float* in, std::int64_t plane, Count channels, float* out) {
  for (std::int64_t group = 0; group < kLanes; group += kSide) {
    Vector<float> rows[kSide];
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) rows[i] = load(in + i * kLanes + group);
    transpose<float>(rows);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kSide; ++i) {
      if (group + i < channels) store(out + (group + i) * plane, rows[i]);
    }
  }
}

/// Calls visit(first pixel) for squares that cover a plane: the last one may overlap the one before. REQUIRES: plane
/// holds one.
template <class Visit>
CORE_INLINE void for_each_square(std::int64_t plane, const Visit& visit) {
  for (std::int64_t first = 0; first < plane; first += kSide) visit(std::min(first, plane - kSide));
}

template <class Count>
void block_of_order(const ImageReorder& p, const BlockPlace& place, Count channels) {
  const std::int64_t plane = p.shape.plane;
  const float* in = p.in + place.in_order;
  float* out = p.out + place.in_blocks;
  if (plane >= kSide) {
    for_each_square(
        plane, [&](std::int64_t first) __attribute__((always_inline)) {
          block_of_rows(in + first, plane, channels, out + first * kLanes);
        });
    return;
  }
  for (std::int64_t i = 0; i < plane * kLanes; ++i) {
    const std::int64_t c = i % kLanes;
    out[i] = c < channels ? in[c * plane + i / kLanes] : 0;
  }
}

template <class Count>
void order_of_block(const ImageReorder& p, const BlockPlace& place, Count channels) {
  const std::int64_t plane = p.shape.plane;
  const float* in = p.in + place.in_blocks;
  float* out = p.out + place.in_order;
  if (plane >= kSide) {
    for_each_square(
        plane, [&](std::int64_t first) __attribute__((always_inline)) {
          rows_of_block(in + first * kLanes, plane, channels, out + first);
        });
    return;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t pixel = 0; pixel < plane; ++pixel) out[c * plane + pixel] = in[pixel * kLanes + c];
  }
}

using Whole = std::integral_constant<std::int64_t, kLanes>;  // lets the compiler unroll

void to_blocks(const ImageReorder& p) {
  for_each_block(p.shape, [&](std::int64_t block) {
    const BlockPlace place(p.shape, block);
    place.channels == kLanes ? block_of_order(p, place, Whole()) : block_of_order(p, place, place.channels);
  });
}

void from_blocks(const ImageReorder& p) {
  for_each_block(p.shape, [&](std::int64_t block) {
    const BlockPlace place(p.shape, block);
    place.channels == kLanes ? order_of_block(p, place, Whole()) : order_of_block(p, place, place.channels);
  });
}

template <bool kMap, bool kAdd, ImageActivation kActivation>
void pass_blocks(const ImagePass& p) {
  for_each_block(p.shape, [&](std::int64_t block) {
    Floats scale{}, shift = -Floats{};  // x + -0 is x, whatever its sign
    const std::int64_t channel = block % p.shape.blocks() * kLanes, at = block * p.shape.plane * kLanes;
    if constexpr (kMap) {
      scale = load<Floats>(p.scale + (p.scale_each ? block * kLanes : channel));
      if (p.shift != nullptr) shift = load<Floats>(p.shift + channel);
    }
    const float* in = p.in + at;
    const float* addend = kAdd ? p.addend + at : nullptr;
    float* out = p.out + at;
    for (std::int64_t i = 0; i < p.shape.plane * kLanes; i += kLanes) {
      Floats value = load<Floats>(in + i);
      if constexpr (kMap) value = value * scale + shift;
      if constexpr (kAdd) {
        value += load<Floats>(addend + i);
      }
      store(out + i, activated<kActivation>(value));
    }
  });
}

template <bool kMap, bool kAdd>
void pass_blocks(const ImagePass& p) {
  switch (p.activation) {
    case ImageActivation::none:
      return pass_blocks<kMap, kAdd, ImageActivation::none>(p);
    case ImageActivation::relu:
      return pass_blocks<kMap, kAdd, ImageActivation::relu>(p);
    case ImageActivation::relu6:
      return pass_blocks<kMap, kAdd, ImageActivation::relu6>(p);
    case ImageActivation::hardswish:
      return pass_blocks<kMap, kAdd, ImageActivation::hardswish>(p);
    case ImageActivation::silu:
      return pass_blocks<kMap, kAdd, ImageActivation::silu>(p);
  }
}

void pass(const ImagePass& p) {
  if (p.scale != nullptr) {
    p.addend != nullptr ? pass_blocks<true, true>(p) : pass_blocks<true, false>(p);
  } else {
    p.addend != nullptr ? pass_blocks<false, true>(p) : pass_blocks<false, false>(p);
  }
}

void relu_grad(const ImageReluGrad& p) {
  parallel_for(p.count / kLanes, kWork / kLanes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
      Floats grad = load<Floats>(p.grad + i);
      Floats output = load<Floats>(p.output + i);
      grad = output <= 0 ? Floats{} : grad;
      store(p.out + i, grad);
    }
  });
}

constexpr std::int64_t kChunk = 32;  // pixels that are summed in single precision

/// visit(first channel) for the groups of channels, on several threads.
template <class Visit>
void for_each_group(const ImageShape& s, Visit visit) {
  parallel_for(s.blocks(), grain_for(s.pixels() * kLanes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) visit(group * kLanes);
  });
}

/// Channels of the group that begins at `first`.
std::int64_t lanes_of(const ImageShape& s, std::int64_t first) {
  return std::min(kLanes, s.channels - first);
}

/// sums[c] += what term(element, part) adds to `part` for all pixels of the group of channels that begins at `channel`.
template <class Term>
void sum_group(const ImageShape& s, std::int64_t channel, double* sums, Term term) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const std::int64_t at = (n * s.blocks() * kLanes + channel) * s.plane;
    for (std::int64_t first = 0; first < s.plane; first += kChunk) {
      const std::int64_t end = std::min(s.plane, first + kChunk);
      Floats part{};
      for (std::int64_t pixel = first; pixel < end; ++pixel) term(at + pixel * kLanes, part);
      for (std::int64_t c = 0; c < kLanes; ++c) sums[c] += static_cast<double>(part[c]);
    }
  }
}

void sum_values(const ImageShape& s, const float* in, std::int64_t channel, double* sums) {
  sum_group(s, channel, sums, [in](std::int64_t at, Floats& part) {
    Floats value = load<Floats>(in + at);
    part += value;
  });
}

void stats(const ImageStats& p) {
  const auto count = static_cast<double>(p.shape.pixels());
  for_each_group(p.shape, [&](std::int64_t first) {
    double sums[kLanes] = {}, squares[kLanes] = {};
    sum_values(p.shape, p.in, first, sums);
    const std::int64_t lanes = lanes_of(p.shape, first);
    for (std::int64_t c = 0; c < lanes; ++c) p.mean[first + c] = static_cast<float>(sums[c] / count);
    Floats mean = load_up_to<Floats>(p.mean + first, lanes);
    sum_group(p.shape, first, squares, [&](std::int64_t at, Floats& part) {
      Floats value = load<Floats>(p.in + at);
      value -= mean;
      part += value * value;
    });
    for (std::int64_t c = 0; c < lanes; ++c) p.var[first + c] = static_cast<float>(squares[c] / count);
  });
}

/// input_grad = grad * scale + (input * slope + shift), per channel.
struct NormGroup {
  float scale[kLanes] = {}, slope[kLanes] = {}, shift[kLanes] = {};
};

/// From the sums of the gradient and of its products with the centred input.
NormGroup norm_group(const ImageNormGrad& p, std::int64_t first, const double* sum, const double* product) {
  NormGroup group;
  for (std::int64_t c = 0; c < lanes_of(p.shape, first); ++c) {
    const double inverse_std = p.inverse_std[first + c], mean = p.mean[first + c];
    const double weight = p.weight != nullptr ? p.weight[first + c] : 1;
    if (p.weight_grad != nullptr) p.weight_grad[first + c] = static_cast<float>(product[c] * inverse_std);
    if (p.bias_grad != nullptr) p.bias_grad[first + c] = static_cast<float>(sum[c]);
    const double live = p.batch_stats ? 1 / static_cast<double>(p.shape.pixels()) : 0;
    const double scale = weight * inverse_std;
    const double slope = -scale * inverse_std * inverse_std * product[c] * live;
    group.scale[c] = static_cast<float>(scale);
    group.slope[c] = static_cast<float>(slope);
    group.shift[c] = static_cast<float>(-scale * sum[c] * live - slope * mean);
  }
  return group;
}

void norm_input_grad(const ImageNormGrad& p, std::int64_t first, const NormGroup& group) {
  Floats scale = load<Floats>(group.scale);
  Floats slope = load<Floats>(group.slope);
  Floats shift = load<Floats>(group.shift);
  for (std::int64_t n = 0; n < p.shape.batch; ++n) {
    const std::int64_t begin = (n * p.shape.blocks() * kLanes + first) * p.shape.plane;
    for (std::int64_t at = begin; at < begin + p.shape.plane * kLanes; at += kLanes) {
      Floats grad = load<Floats>(p.output_grad + at);
      Floats value = load<Floats>(p.input + at);
      value = grad * scale + (value * slope + shift);
      store(p.input_grad + at, value);
    }
  }
}

void norm_grad(const ImageNormGrad& p) {
  for_each_group(p.shape, [&](std::int64_t first) {
    double sum[kLanes] = {}, product[kLanes] = {};
    sum_values(p.shape, p.output_grad, first, sum);
    Floats mean = load_up_to<Floats>(p.mean + first, lanes_of(p.shape, first));
    sum_group(p.shape, first, product, [&](std::int64_t at, Floats& part) {
      Floats grad = load<Floats>(p.output_grad + at);
      Floats value = load<Floats>(p.input + at);
      part += grad * (value - mean);
    });
    const NormGroup group = norm_group(p, first, sum, product);
    if (p.input_grad != nullptr) norm_input_grad(p, first, group);
  });
}

void mean(const ImageMean& p) {
  for (std::int64_t n = 0; n < p.shape.batch; ++n) {
    const std::int64_t image = p.shape.plane * p.shape.blocks() * kLanes;
    const ImageShape one{1, p.shape.channels, p.shape.plane};
    for_each_group(one, [&](std::int64_t first) {
      double sums[kLanes] = {};
      sum_values(one, p.in + n * image, first, sums);
      float* out = p.out + n * p.shape.channels + first;
      for (std::int64_t c = 0; c < lanes_of(one, first); ++c) {
        out[c] = static_cast<float>(sums[c] / static_cast<double>(one.plane));
      }
    });
  }
}

}  // namespace

void fill_blocked_layout(ImageTable& table) {
  table.to_blocks = to_blocks;
  table.from_blocks = from_blocks;
  table.pass = pass;
  table.relu_grad = relu_grad;
  table.stats = stats;
  table.norm_grad = norm_grad;
  table.mean = mean;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

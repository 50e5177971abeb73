// Kernels on images in blocks of channels, but pooling and convolution. Work is split so that each result is computed
// by one thread in one order: results do not depend on the number of threads.
#include "libcore/backend/cpu/nn_vector.h"

#include <algorithm>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector16.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kWork = 32768;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// Calls visit(block, its first element, its first channel) for all blocks, on several threads.
template <class Visit>
void for_each_block(const ImageShape& s, Visit visit) {
  const std::int64_t groups = s.channels / kLanes, size = s.plane * kLanes;
  parallel_for(s.batch * groups, grain_for(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) visit(block * size, block % groups * kLanes);
  });
}

constexpr std::int64_t kTile = 16;  // pixels that are moved together: whole cache lines on both sides

void to_blocks(const ImageReorder& p) {
  const std::int64_t plane = p.shape.plane;
  for_each_block(p.shape, [&](std::int64_t at, std::int64_t) {
    const float* in = p.in + at;
    float* out = p.out + at;
    for (std::int64_t first = 0; first < plane; first += kTile) {
      const std::int64_t end = std::min(plane, first + kTile);
      for (std::int64_t pixel = first; pixel < end; ++pixel) {
        for (std::int64_t c = 0; c < kLanes; ++c) out[pixel * kLanes + c] = in[c * plane + pixel];
      }
    }
  });
}

void from_blocks(const ImageReorder& p) {
  const std::int64_t plane = p.shape.plane;
  for_each_block(p.shape, [&](std::int64_t at, std::int64_t) {
    const float* in = p.in + at;
    float* out = p.out + at;
    for (std::int64_t first = 0; first < plane; first += kTile) {
      const std::int64_t end = std::min(plane, first + kTile);
      for (std::int64_t c = 0; c < kLanes; ++c) {
        for (std::int64_t pixel = first; pixel < end; ++pixel) out[c * plane + pixel] = in[pixel * kLanes + c];
      }
    }
  });
}

template <bool kMap, bool kAdd, bool kRelu>
void pass_blocks(const ImagePass& p) {
  for_each_block(p.shape, [&](std::int64_t at, std::int64_t channel) {
    Floats scale{}, shift{};
    if constexpr (kMap) {
      load(scale, p.scale + channel);
      load(shift, p.shift + channel);
    }
    const float* in = p.in + at;
    const float* addend = kAdd ? p.addend + at : nullptr;
    float* out = p.out + at;
    for (std::int64_t i = 0; i < p.shape.plane * kLanes; i += kLanes) {
      Floats value;
      load(value, in + i);
      if constexpr (kMap) value = value * scale + shift;
      if constexpr (kAdd) {
        Floats added;
        load(added, addend + i);
        value += added;
      }
      if constexpr (kRelu) value = value < 0 ? Floats{} : value;
      store(out + i, value);
    }
  });
}

template <bool kMap, bool kAdd>
void pass_blocks(const ImagePass& p) {
  p.relu ? pass_blocks<kMap, kAdd, true>(p) : pass_blocks<kMap, kAdd, false>(p);
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
      Floats grad, output;
      load(grad, p.grad + i);
      load(output, p.output + i);
      grad = output <= 0 ? Floats{} : grad;
      store(p.out + i, grad);
    }
  });
}

constexpr std::int64_t kChunk = 32;  // pixels that are summed in single precision

/// visit(first channel) for the groups of channels, on several threads.
template <class Visit>
void for_each_group(const ImageShape& s, Visit visit) {
  parallel_for(s.channels / kLanes, grain_for(s.pixels() * kLanes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) visit(group * kLanes);
  });
}

/// sums[c] += what term(element, part) adds to `part` for all pixels of the group of channels that begins at `channel`.
template <class Term>
void sum_group(const ImageShape& s, std::int64_t channel, double* sums, Term term) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const std::int64_t at = (n * s.channels + channel) * s.plane;
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
    Floats value;
    load(value, in + at);
    part += value;
  });
}

void stats(const ImageStats& p) {
  const auto count = static_cast<double>(p.shape.pixels());
  for_each_group(p.shape, [&](std::int64_t first) {
    double sums[kLanes] = {}, squares[kLanes] = {};
    sum_values(p.shape, p.in, first, sums);
    for (std::int64_t c = 0; c < kLanes; ++c) p.mean[first + c] = static_cast<float>(sums[c] / count);
    Floats mean;
    load(mean, p.mean + first);
    sum_group(p.shape, first, squares, [&](std::int64_t at, Floats& part) {
      Floats value;
      load(value, p.in + at);
      value -= mean;
      part += value * value;
    });
    for (std::int64_t c = 0; c < kLanes; ++c) p.var[first + c] = static_cast<float>(squares[c] / count);
  });
}

/// input_grad = grad * scale + (input * slope + shift), per channel.
struct NormGroup {
  float scale[kLanes] = {}, slope[kLanes] = {}, shift[kLanes] = {};
};

/// From the sums of the gradient and of its products with the centred input.
NormGroup norm_group(const ImageNormGrad& p, std::int64_t first, const double* sum, const double* product) {
  NormGroup group;
  for (std::int64_t c = 0; c < kLanes; ++c) {
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
  Floats scale, slope, shift;
  load(scale, group.scale);
  load(slope, group.slope);
  load(shift, group.shift);
  for (std::int64_t n = 0; n < p.shape.batch; ++n) {
    const std::int64_t begin = (n * p.shape.channels + first) * p.shape.plane;
    for (std::int64_t at = begin; at < begin + p.shape.plane * kLanes; at += kLanes) {
      Floats grad, value;
      load(grad, p.output_grad + at);
      load(value, p.input + at);
      value = grad * scale + (value * slope + shift);
      store(p.input_grad + at, value);
    }
  }
}

void norm_grad(const ImageNormGrad& p) {
  for_each_group(p.shape, [&](std::int64_t first) {
    double sum[kLanes] = {}, product[kLanes] = {};
    sum_values(p.shape, p.output_grad, first, sum);
    Floats mean;
    load(mean, p.mean + first);
    sum_group(p.shape, first, product, [&](std::int64_t at, Floats& part) {
      Floats grad, value;
      load(grad, p.output_grad + at);
      load(value, p.input + at);
      part += grad * (value - mean);
    });
    const NormGroup group = norm_group(p, first, sum, product);
    if (p.input_grad != nullptr) norm_input_grad(p, first, group);
  });
}

void mean(const ImageMean& p) {
  for (std::int64_t n = 0; n < p.shape.batch; ++n) {
    const std::int64_t image = p.shape.plane * p.shape.channels;
    const ImageShape one{1, p.shape.channels, p.shape.plane};
    for_each_group(one, [&](std::int64_t first) {
      double sums[kLanes] = {};
      sum_values(one, p.in + n * image, first, sums);
      float* out = p.out + n * p.shape.channels + first;
      for (std::int64_t c = 0; c < kLanes; ++c) out[c] = static_cast<float>(sums[c] / static_cast<double>(one.plane));
    });
  }
}

}  // namespace

void fill_image_kernels(ImageTable& table) {
  table.to_blocks = to_blocks;
  table.from_blocks = from_blocks;
  table.pass = pass;
  table.relu_grad = relu_grad;
  table.stats = stats;
  table.norm_grad = norm_grad;
  table.mean = mean;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

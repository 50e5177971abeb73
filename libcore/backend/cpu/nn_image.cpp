// Kernels on channels-last images but convolution. Work is split so that each result is computed by one thread in one
// order: results do not depend on the number of threads.
#include "libcore/backend/cpu/nn_image.h"

#include <algorithm>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/vector16.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kWork = 32768;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// out (columns, rows) = in (rows, columns) transposed, in tiles that stay in the nearest cache.
void transpose(const float* in, float* out, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t c = 0; c < columns; c += kTile) {
    for (std::int64_t r = 0; r < rows; r += kTile) {
      const std::int64_t r_end = std::min(rows, r + kTile), c_end = std::min(columns, c + kTile);
      for (std::int64_t j = c; j < c_end; ++j) {
        for (std::int64_t i = r; i < r_end; ++i) out[j * rows + i] = in[i * columns + j];
      }
    }
  }
}

void to_channels_last(const ImageReorder& p) {
  const std::int64_t size = p.shape.channels * p.shape.plane;
  parallel_for(p.shape.batch, grain_for(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      transpose(p.in + n * size, p.out + n * size, p.shape.channels, p.shape.plane);
  });
}

void from_channels_last(const ImageReorder& p) {
  const std::int64_t size = p.shape.channels * p.shape.plane;
  parallel_for(p.shape.batch, grain_for(size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      transpose(p.in + n * size, p.out + n * size, p.shape.plane, p.shape.channels);
  });
}

/// One group of channels of one pixel.
template <bool kMap, bool kAdd, bool kRelu>
[[gnu::always_inline]] inline void pass_group(const ImagePass& p, std::int64_t at, std::int64_t channel,
                                              std::int64_t count) {
  Floats value;
  load_up_to(value, p.in + at, count);
  if constexpr (kMap) {
    Floats scale, shift;
    load_up_to(scale, p.scale + channel, count);
    load_up_to(shift, p.shift + channel, count);
    value = value * scale + shift;
  }
  if constexpr (kAdd) {
    Floats added;
    load_up_to(added, p.addend + at, count);
    value += added;
  }
  if constexpr (kRelu) value = value < 0 ? Floats{} : value;
  store_up_to(p.out + at, value, count);
}

template <bool kMap, bool kAdd, bool kRelu>
void pass_pixels(const ImagePass& p, std::int64_t begin, std::int64_t end) {
  const ImagePass pass = p;
  const std::int64_t full = pass.channels / kLanes * kLanes, rest = pass.channels - full;
  for (std::int64_t pixel = begin; pixel < end; ++pixel) {
    const std::int64_t at = pixel * pass.channels;
    for (std::int64_t c = 0; c < full; c += kLanes) pass_group<kMap, kAdd, kRelu>(pass, at + c, c, kLanes);
    if (rest != 0) pass_group<kMap, kAdd, kRelu>(pass, at + full, full, rest);
  }
}

template <bool kMap, bool kAdd>
void pass_pixels(const ImagePass& p, std::int64_t begin, std::int64_t end) {
  p.relu ? pass_pixels<kMap, kAdd, true>(p, begin, end) : pass_pixels<kMap, kAdd, false>(p, begin, end);
}

void pass(const ImagePass& p) {
  parallel_for(p.pixels, grain_for(p.channels), [&](std::int64_t begin, std::int64_t end) {
    if (p.scale != nullptr) {
      p.addend != nullptr ? pass_pixels<true, true>(p, begin, end) : pass_pixels<true, false>(p, begin, end);
    } else {
      p.addend != nullptr ? pass_pixels<false, true>(p, begin, end) : pass_pixels<false, false>(p, begin, end);
    }
  });
}

void relu_grad(const ImageReluGrad& p) {
  parallel_for(p.count, kWork, [&](std::int64_t begin, std::int64_t end) {
    const ImageReluGrad all = p;
    for (std::int64_t i = begin; i < end; i += kLanes) {
      const std::int64_t count = std::min(kLanes, end - i);
      Floats grad, output;
      load_up_to(grad, all.grad + i, count);
      load_up_to(output, all.output + i, count);
      grad = output <= 0 ? Floats{} : grad;
      store_up_to(all.out + i, grad, count);
    }
  });
}

constexpr std::int64_t kChunk = 32;  // pixels that are summed in single precision

/// Adds to sums[c], for `channels` (at most kLanes), term(pixel's first element) of all pixels.
template <class Term>
[[gnu::always_inline]] inline void sum_lane(std::int64_t pixels, std::int64_t stride, std::int64_t channels,
                                            double* sums, Term term) {
  for (std::int64_t first = 0; first < pixels; first += kChunk) {
    const std::int64_t end = std::min(pixels, first + kChunk);
    Floats part{};
    for (std::int64_t pixel = first; pixel < end; ++pixel) term(pixel * stride, part);
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(part[c]);
  }
}

/// visit(first channel, count) for groups of kLanes channels, on several threads.
template <class Visit>
void for_each_lane(std::int64_t pixels, std::int64_t channels, Visit visit) {
  const std::int64_t lanes = (channels + kLanes - 1) / kLanes;
  parallel_for(lanes, grain_for(pixels * kLanes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lane = begin; lane < end; ++lane) {
      visit(lane * kLanes, std::min(kLanes, channels - lane * kLanes));
    }
  });
}

/// Sums of all elements and, where `center` is not null, of squared distances from it instead.
[[gnu::always_inline]] inline void sum_values(const float* in, std::int64_t pixels, std::int64_t stride,
                                              std::int64_t channels, const float* center, double* sums) {
  Floats mean{};
  if (center != nullptr) load_up_to(mean, center, channels);
  const auto each = [&](std::int64_t count) {
    if (center != nullptr) {
      sum_lane(pixels, stride, channels, sums, [&](std::int64_t at, Floats& part) {
        Floats value;
        load_up_to(value, in + at, count);
        value -= mean;
        part += value * value;
      });
    } else {
      sum_lane(pixels, stride, channels, sums, [&](std::int64_t at, Floats& part) {
        Floats value;
        load_up_to(value, in + at, count);
        part += value;
      });
    }
  };
  channels == kLanes ? each(kLanes) : each(channels);
}

void stats(const ImageStats& p) {
  const auto count = static_cast<double>(p.pixels);
  for_each_lane(p.pixels, p.channels, [&](std::int64_t first, std::int64_t channels) {
    double sums[kLanes] = {}, squares[kLanes] = {};
    sum_values(p.in + first, p.pixels, p.channels, channels, nullptr, sums);
    for (std::int64_t c = 0; c < channels; ++c) p.mean[first + c] = static_cast<float>(sums[c] / count);
    sum_values(p.in + first, p.pixels, p.channels, channels, p.mean + first, squares);
    for (std::int64_t c = 0; c < channels; ++c) p.var[first + c] = static_cast<float>(squares[c] / count);
  });
}

/// input_grad = grad * scale + (input * slope + shift), per channel.
struct NormLane {
  float scale[kLanes] = {}, slope[kLanes] = {}, shift[kLanes] = {};
};

/// Sums of the gradient and of its products with the centred input.
[[gnu::always_inline]] inline void norm_sums(const ImageNormGrad& p, std::int64_t first, std::int64_t channels,
                                             double* sum, double* product) {
  const float* grads = p.output_grad + first;
  const float* in = p.input + first;
  Floats mean;
  load_up_to(mean, p.mean + first, channels);
  sum_values(grads, p.pixels, p.channels, channels, nullptr, sum);
  const auto each = [&](std::int64_t count) {
    sum_lane(p.pixels, p.channels, channels, product, [&](std::int64_t at, Floats& part) {
      Floats grad, value;
      load_up_to(grad, grads + at, count);
      load_up_to(value, in + at, count);
      part += grad * (value - mean);
    });
  };
  channels == kLanes ? each(kLanes) : each(channels);
}

NormLane norm_lane(const ImageNormGrad& p, std::int64_t first, std::int64_t channels, const double* sum,
                   const double* product) {
  NormLane lane;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double inverse_std = p.inverse_std[first + c], mean = p.mean[first + c];
    const double weight = p.weight != nullptr ? p.weight[first + c] : 1;
    if (p.weight_grad != nullptr) p.weight_grad[first + c] = static_cast<float>(product[c] * inverse_std);
    if (p.bias_grad != nullptr) p.bias_grad[first + c] = static_cast<float>(sum[c]);
    const double live = p.batch_stats ? 1 / static_cast<double>(p.pixels) : 0;
    const double scale = weight * inverse_std;
    const double slope = -scale * inverse_std * inverse_std * product[c] * live;
    lane.scale[c] = static_cast<float>(scale);
    lane.slope[c] = static_cast<float>(slope);
    lane.shift[c] = static_cast<float>(-scale * sum[c] * live - slope * mean);
  }
  return lane;
}

[[gnu::always_inline]] inline void norm_input_grad(const ImageNormGrad& p, std::int64_t first, std::int64_t channels,
                                                   const NormLane& lane) {
  Floats scale, slope, shift;
  load(scale, lane.scale);
  load(slope, lane.slope);
  load(shift, lane.shift);
  for (std::int64_t pixel = 0; pixel < p.pixels; ++pixel) {
    const std::int64_t at = pixel * p.channels + first;
    Floats grad, value;
    load_up_to(grad, p.output_grad + at, channels);
    load_up_to(value, p.input + at, channels);
    value = grad * scale + (value * slope + shift);
    store_up_to(p.input_grad + at, value, channels);
  }
}

void norm_grad(const ImageNormGrad& p) {
  for_each_lane(p.pixels, p.channels, [&](std::int64_t first, std::int64_t channels) {
    double sum[kLanes] = {}, product[kLanes] = {};
    norm_sums(p, first, channels, sum, product);
    const NormLane lane = norm_lane(p, first, channels, sum, product);
    if (p.input_grad == nullptr) return;
    channels == kLanes ? norm_input_grad(p, first, kLanes, lane) : norm_input_grad(p, first, channels, lane);
  });
}

void mean(const ImageMean& p) {
  const ImageShape& s = p.shape;
  const auto count = static_cast<double>(s.plane);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const float* in = p.in + n * s.plane * s.channels;
    for_each_lane(s.plane, s.channels, [&](std::int64_t first, std::int64_t channels) {
      double sums[kLanes] = {};
      sum_values(in + first, s.plane, s.channels, channels, nullptr, sums);
      float* out = p.out + n * s.channels + first;
      for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<float>(sums[c] / count);
    });
  }
}

}  // namespace

void fill_image_kernels(ImageTable& table) {
  table.to_channels_last = to_channels_last;
  table.from_channels_last = from_channels_last;
  table.pass = pass;
  table.relu_grad = relu_grad;
  table.stats = stats;
  table.norm_grad = norm_grad;
  table.mean = mean;
}

}  // namespace core::cpu::CORE_CPU_VARIANT

// Kernels on channels-last images but convolution. Work is split so that each result is computed by one thread in one
// order: results do not depend on the number of threads.
#include "libcore/backend/cpu/nn_image.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/backend/cpu/nn_kernels.h"
#include "libcore/backend/cpu/simd_run.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kWork = 32768;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// out (columns, rows) = in (rows, columns) transposed, in tiles that stay in the nearest cache.
void transpose(const float* in, float* out, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;
  run_wide([=]() CORE_INLINE_BODY {
    for (std::int64_t c = 0; c < columns; c += kTile) {
      for (std::int64_t r = 0; r < rows; r += kTile) {
        const std::int64_t r_end = std::min(rows, r + kTile), c_end = std::min(columns, c + kTile);
        for (std::int64_t j = c; j < c_end; ++j) {
          for (std::int64_t i = r; i < r_end; ++i) out[j * rows + i] = in[i * columns + j];
        }
      }
    }
  });
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

template <bool kMap, bool kAdd, bool kRelu>
void pass_rows(const ImagePass& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = p.channels;
  run_wide([&, channels]() CORE_INLINE_BODY {
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      const float* in = p.in + pixel * channels;
      const float* add = kAdd ? p.addend + pixel * channels : nullptr;
      float* out = p.out + pixel * channels;
      const float* scale = p.scale;
      const float* shift = p.shift;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < channels; ++c) {
        float value = in[c];
        if constexpr (kMap) value = value * scale[c] + shift[c];
        if constexpr (kAdd) value += add[c];
        if constexpr (kRelu) value = value < 0 ? 0.0F : value;
        out[c] = value;
      }
    }
  });
}

template <bool kMap, bool kAdd>
void pass_rows(const ImagePass& p, std::int64_t begin, std::int64_t end) {
  p.relu ? pass_rows<kMap, kAdd, true>(p, begin, end) : pass_rows<kMap, kAdd, false>(p, begin, end);
}

void pass(const ImagePass& p) {
  parallel_for(p.pixels, grain_for(p.channels), [&](std::int64_t begin, std::int64_t end) {
    if (p.scale != nullptr) {
      p.addend != nullptr ? pass_rows<true, true>(p, begin, end) : pass_rows<true, false>(p, begin, end);
    } else {
      p.addend != nullptr ? pass_rows<false, true>(p, begin, end) : pass_rows<false, false>(p, begin, end);
    }
  });
}

void relu_grad(const ImageReluGrad& p) {
  parallel_for(p.count, kWork, [&](std::int64_t begin, std::int64_t end) {
    run_wide([&, begin, end]() CORE_INLINE_BODY {
      const float* grad = p.grad;
      const float* output = p.output;
      float* __restrict out = p.out;
      for (std::int64_t i = begin; i < end; ++i) out[i] = output[i] <= 0 ? 0.0F : grad[i];
    });
  });
}

constexpr std::int64_t kLane = 16;   // channels that are summed together
constexpr std::int64_t kChunk = 32;  // pixels that are summed in single precision

/// Sums over the pixels of `channels` (at most kLane): sums[c] = sum of term(pixel's first element + c, c).
template <class Term>
[[gnu::always_inline]] inline void sum_lane(std::int64_t pixels, std::int64_t stride, std::int64_t channels,
                                            double* sums, Term term) {
  double total[kLane] = {};
  for (std::int64_t first = 0; first < pixels; first += kChunk) {
    const std::int64_t end = std::min(pixels, first + kChunk);
    float part[kLane] = {};
    if (channels == kLane) {
      for (std::int64_t pixel = first; pixel < end; ++pixel) {
        for (std::int64_t c = 0; c < kLane; ++c) part[c] += term(pixel * stride + c, c);
      }
    } else {
      for (std::int64_t pixel = first; pixel < end; ++pixel) {
        for (std::int64_t c = 0; c < channels; ++c) part[c] += term(pixel * stride + c, c);
      }
    }
    for (std::int64_t c = 0; c < kLane; ++c) total[c] += static_cast<double>(part[c]);
  }
  for (std::int64_t c = 0; c < channels; ++c) sums[c] = total[c];
}

/// visit(first channel, count) for groups of kLane channels, on several threads.
template <class Visit>
void for_each_lane(std::int64_t pixels, std::int64_t channels, Visit visit) {
  const std::int64_t lanes = (channels + kLane - 1) / kLane;
  parallel_for(lanes, grain_for(pixels * kLane), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t lane = begin; lane < end; ++lane) {
      visit(lane * kLane, std::min(kLane, channels - lane * kLane));
    }
  });
}

void stats(const ImageStats& p) {
  const auto count = static_cast<double>(p.pixels);
  for_each_lane(p.pixels, p.channels, [&](std::int64_t first, std::int64_t channels) {
    run_wide([&]() CORE_INLINE_BODY {
      const float* in = p.in + first;
      double sums[kLane] = {};
      float mean[kLane] = {};
      sum_lane(p.pixels, p.channels, channels, sums,
               [&](std::int64_t i, std::int64_t) CORE_INLINE_BODY { return in[i]; });
      for (std::int64_t c = 0; c < channels; ++c) mean[c] = p.mean[first + c] = static_cast<float>(sums[c] / count);
      sum_lane(p.pixels, p.channels, channels, sums, [&](std::int64_t i, std::int64_t c) CORE_INLINE_BODY {
        const float off = in[i] - mean[c];
        return off * off;
      });
      for (std::int64_t c = 0; c < channels; ++c) p.var[first + c] = static_cast<float>(sums[c] / count);
    });
  });
}

/// input_grad = grad * scale + input * slope + shift, per channel.
struct NormLane {
  float scale[kLane] = {}, slope[kLane] = {}, shift[kLane] = {};
};

[[gnu::always_inline]] inline NormLane norm_sums(const ImageNormGrad& p, std::int64_t first, std::int64_t channels) {
  const float* grad = p.output_grad + first;
  const float* in = p.input + first;
  const float* means = p.mean + first;
  double sum[kLane] = {}, product[kLane] = {};
  sum_lane(p.pixels, p.channels, channels, sum, [&](std::int64_t i, std::int64_t) CORE_INLINE_BODY { return grad[i]; });
  sum_lane(p.pixels, p.channels, channels, product,
           [&](std::int64_t i, std::int64_t c) CORE_INLINE_BODY { return grad[i] * (in[i] - means[c]); });
  NormLane lane;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double inverse_std = p.inverse_std[first + c], mean = means[c];
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

void norm_grad(const ImageNormGrad& p) {
  for_each_lane(p.pixels, p.channels, [&](std::int64_t first, std::int64_t channels) {
    run_wide([&]() CORE_INLINE_BODY {
      const NormLane lane = norm_sums(p, first, channels);
      if (p.input_grad == nullptr) return;
      for (std::int64_t pixel = 0; pixel < p.pixels; ++pixel) {
        const std::int64_t at = pixel * p.channels + first;
        const float* grad = p.output_grad + at;
        const float* in = p.input + at;
        float* __restrict out = p.input_grad + at;
        if (channels == kLane) {
          for (std::int64_t c = 0; c < kLane; ++c)
            out[c] = grad[c] * lane.scale[c] + (in[c] * lane.slope[c] + lane.shift[c]);
        } else {
          for (std::int64_t c = 0; c < channels; ++c)
            out[c] = grad[c] * lane.scale[c] + (in[c] * lane.slope[c] + lane.shift[c]);
        }
      }
    });
  });
}

void mean(const ImageMean& p) {
  const auto count = static_cast<double>(p.shape.plane);
  const std::int64_t size = p.shape.plane * p.shape.channels;
  for (std::int64_t n = 0; n < p.shape.batch; ++n) {
    for_each_lane(p.shape.plane, p.shape.channels, [&](std::int64_t first, std::int64_t channels) {
      run_wide([&]() CORE_INLINE_BODY {
        const float* in = p.in + n * size + first;
        double sums[kLane] = {};
        sum_lane(p.shape.plane, p.shape.channels, channels, sums,
                 [&](std::int64_t i, std::int64_t) CORE_INLINE_BODY { return in[i]; });
        float* out = p.out + n * p.shape.channels + first;
        for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<float>(sums[c] / count);
      });
    });
  }
}

}  // namespace

void add_image_kernels(NnTable& table) {
  static const ImageTable image{
      .to_channels_last = to_channels_last,
      .from_channels_last = from_channels_last,
      .pass = pass,
      .relu_grad = relu_grad,
      .stats = stats,
      .norm_grad = norm_grad,
      .max_pool = image_max_pool,
      .max_pool_grad = image_max_pool_grad,
      .mean = mean,
      .conv_fits = image_conv_fits,
      .prepared_bytes = image_conv_prepared_bytes,
      .prepare = image_conv_prepare,
      .conv = image_conv,
      .conv_input_grad = image_conv_input_grad,
      .conv_weight_grad = image_conv_weight_grad,
  };
  table.image = &image;
}

}  // namespace core::cpu

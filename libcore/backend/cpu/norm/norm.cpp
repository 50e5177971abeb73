// Batch and layer normalisation. Sums run in double: a channel can hold millions of elements.
#include <algorithm>
#include <cmath>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kWork = 8192;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// Sums of a run of elements, in eight lanes that the compiler can keep in registers.
template <class T, class Value>
double sum_run(std::int64_t count, Value value) {
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(value(i + lane));
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(value(i));
  return sum;
}

/// Sum of value(element index) over one channel.
template <class T, class Value>
double sum_channel(const BatchNormSizes& s, std::int64_t channel, Value value) {
  double sum = 0;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const std::int64_t base = (n * s.channels + channel) * s.plane;
    sum += sum_run<T>(s.plane, [&](std::int64_t i) { return value(base + i); });
  }
  return sum;
}

/// Calls visit(channel) for all channels, on several threads.
template <class Visit>
void for_each_channel(const BatchNormSizes& s, Visit visit) {
  parallel_for(s.channels, grain_for(s.batch * s.plane), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t channel = begin; channel < end; ++channel) visit(channel);
  });
}

template <class T>
void batch_stats(const BatchStatsParams& p) {
  const auto* in = static_cast<const T*>(p.input);
  const auto count = static_cast<double>(p.sizes.batch * p.sizes.plane);
  for_each_channel(p.sizes, [&](std::int64_t channel) {
    const double mean = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) { return in[i]; }) / count;
    const double squares = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) {
      const double off = static_cast<double>(in[i]) - mean;
      return off * off;
    });
    static_cast<T*>(p.mean)[channel] = static_cast<T>(mean);
    static_cast<T*>(p.var)[channel] = static_cast<T>(squares / count);
  });
}

template <class T>
void batch_norm(const BatchNormParams& p) {
  const BatchNormSizes& s = p.sizes;
  parallel_for(s.batch * s.channels, grain_for(s.plane), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t channel = row % s.channels;
      const T weight = p.weight ? static_cast<const T*>(p.weight)[channel] : T(1);
      const T scale = static_cast<const T*>(p.inverse_std)[channel] * weight;
      const T bias = p.bias ? static_cast<const T*>(p.bias)[channel] : T(0);
      const T shift = bias - static_cast<const T*>(p.mean)[channel] * scale;
      const T* in = static_cast<const T*>(p.input) + row * s.plane;
      T* out = static_cast<T*>(p.output) + row * s.plane;
      for (std::int64_t i = 0; i < s.plane; ++i) out[i] = in[i] * scale + shift;
    }
  });
}

/// input_grad = scale * (grad - mean_grad - normalised * mean_product); the last two are 0 with fixed statistics.
struct ChannelTerms {
  double mean, inverse_std, scale, mean_grad, mean_product;
};

template <class T>
void input_grad_channel(const BatchNormGradParams& p, std::int64_t channel, const ChannelTerms& terms) {
  const BatchNormSizes& s = p.sizes;
  const auto scale = static_cast<T>(terms.scale);
  const auto factor = static_cast<T>(terms.inverse_std * terms.mean_product);
  const auto mean = static_cast<T>(terms.mean), mean_grad = static_cast<T>(terms.mean_grad);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    const std::int64_t base = (n * s.channels + channel) * s.plane;
    const T* grad = static_cast<const T*>(p.output_grad) + base;
    const T* in = static_cast<const T*>(p.input) + base;
    T* out = static_cast<T*>(p.input_grad) + base;
    for (std::int64_t i = 0; i < s.plane; ++i) out[i] = (grad[i] - mean_grad - (in[i] - mean) * factor) * scale;
  }
}

template <class T>
void batch_norm_grad(const BatchNormGradParams& p) {
  const auto* grad = static_cast<const T*>(p.output_grad);
  const auto* in = static_cast<const T*>(p.input);
  const auto count = static_cast<double>(p.sizes.batch * p.sizes.plane);
  for_each_channel(p.sizes, [&](std::int64_t channel) {
    const double mean = static_cast<const T*>(p.mean)[channel];
    const double inverse_std = static_cast<const T*>(p.inverse_std)[channel];
    const double weight = p.weight ? static_cast<const T*>(p.weight)[channel] : 1;
    const double sum = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) { return grad[i]; });
    const double product = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) {
      return static_cast<double>(grad[i]) * (static_cast<double>(in[i]) - mean);
    });
    if (p.weight_grad) static_cast<T*>(p.weight_grad)[channel] = static_cast<T>(product * inverse_std);
    if (p.bias_grad) static_cast<T*>(p.bias_grad)[channel] = static_cast<T>(sum);
    if (!p.input_grad) return;
    const double live = p.batch_stats ? 1 / count : 0;
    input_grad_channel<T>(p, channel,
                          {mean, inverse_std, inverse_std * weight, sum * live, product * inverse_std * live});
  });
}

template <class T>
void layer_norm(const LayerNormParams& p) {
  const auto* weight = static_cast<const T*>(p.weight);
  const auto* bias = static_cast<const T*>(p.bias);
  const auto length = static_cast<double>(p.length);
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = static_cast<const T*>(p.input) + row * p.length;
      T* out = static_cast<T*>(p.output) + row * p.length;
      const auto shift = static_cast<T>(sum_run<T>(p.length, [&](std::int64_t i) { return in[i]; }) / length);
      const double squares = sum_run<T>(p.length, [&](std::int64_t i) { return (in[i] - shift) * (in[i] - shift); });
      const T scale = T(1) / std::sqrt(static_cast<T>(squares / length) + static_cast<T>(p.eps));
      static_cast<T*>(p.mean)[row] = shift;
      static_cast<T*>(p.inverse_std)[row] = scale;
      for (std::int64_t i = 0; i < p.length; ++i) {
        out[i] = (in[i] - shift) * scale * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0));
      }
    }
  });
}

/// Sums down the columns. One thread: rows are many and columns few, and the result must not depend on threads.
template <class T>
void layer_norm_parameter_grads(const LayerNormGradParams& p) {
  auto* weight_grad = static_cast<T*>(p.weight_grad);
  auto* bias_grad = static_cast<T*>(p.bias_grad);
  if (weight_grad) std::fill_n(weight_grad, p.length, T(0));
  if (bias_grad) std::fill_n(bias_grad, p.length, T(0));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* grad = static_cast<const T*>(p.output_grad) + row * p.length;
    const T* in = static_cast<const T*>(p.input) + row * p.length;
    const T mean = static_cast<const T*>(p.mean)[row], inverse_std = static_cast<const T*>(p.inverse_std)[row];
    for (std::int64_t i = 0; weight_grad && i < p.length; ++i) weight_grad[i] += grad[i] * (in[i] - mean) * inverse_std;
    for (std::int64_t i = 0; bias_grad && i < p.length; ++i) bias_grad[i] += grad[i];
  }
}

template <class T>
void layer_norm_input_grad(const LayerNormGradParams& p, std::int64_t row) {
  const T* grad = static_cast<const T*>(p.output_grad) + row * p.length;
  const T* in = static_cast<const T*>(p.input) + row * p.length;
  const auto* weight = static_cast<const T*>(p.weight);
  T* out = static_cast<T*>(p.input_grad) + row * p.length;
  const T mean = static_cast<const T*>(p.mean)[row], inverse_std = static_cast<const T*>(p.inverse_std)[row];
  const T scale = T(1) / static_cast<T>(p.length);
  // In PyTorch's order, precision and fused operations: with few elements a row the terms nearly cancel, and what is
  // left is rounding.
  T with_input = 0, alone = 0;
  for (std::int64_t i = 0; i < p.length; ++i) {
    const T w = weight ? weight[i] : T(1);
    with_input += grad[i] * in[i] * w;
    alone += grad[i] * w;
  }
  const T slope = std::fma(alone, mean, -with_input) * inverse_std * inverse_std * inverse_std * scale;
  const T shift = std::fma(-slope, mean, -(alone * inverse_std * scale));
  for (std::int64_t i = 0; i < p.length; ++i) {
    out[i] = std::fma(slope, in[i], inverse_std * grad[i] * (weight ? weight[i] : T(1))) + shift;
  }
}

template <class T>
void layer_norm_grad(const LayerNormGradParams& p) {
  if (p.weight_grad || p.bias_grad) layer_norm_parameter_grads<T>(p);
  if (!p.input_grad) return;
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) layer_norm_input_grad<T>(p, row);
  });
}

template <class T>
void add_for(NnTable& table, DType dtype) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.batch_stats[slot] = batch_stats<T>;
  table.batch_norm[slot] = batch_norm<T>;
  table.batch_norm_grad[slot] = batch_norm_grad<T>;
  table.layer_norm[slot] = layer_norm<T>;
  table.layer_norm_grad[slot] = layer_norm_grad<T>;
}

}  // namespace

void fill_norms(NnTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
}

}  // namespace core::cpu

// Batch and layer normalisation. Sums run in double: a channel can hold millions of elements.
#include <algorithm>
#include <cmath>
#include <vector>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kWork = 8192;  // elements worth a thread's start

std::int64_t grain_for(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

/// Weight or bias, which are of the data's type or, beside numbers of 16 bits, f32; `otherwise` where there is none.
template <class T>
class Parameter {
 public:
  using Value = Opmath<T>;

  Parameter(const void* data, bool in_f32, float otherwise)
      : own_(in_f32 && is_narrow<T> ? nullptr : static_cast<const T*>(data)),
        wide_(in_f32 && is_narrow<T> ? static_cast<const Value*>(data) : nullptr),
        otherwise_(static_cast<Value>(otherwise)) {}
  Value operator[](std::int64_t i) const {
    if constexpr (is_narrow<T>) {
      if (wide_) return wide_[i];
    }
    return own_ ? static_cast<Value>(own_[i]) : otherwise_;
  }

 private:
  const T* own_;
  const Value* wide_;
  Value otherwise_;
};

/// The gradient of a parameter, of the same types; asks for nothing where it is null.
template <class T>
class ParameterGrad {
 public:
  ParameterGrad(void* data, bool in_f32) : data_(data), in_f32_(in_f32 && is_narrow<T>) {}
  explicit operator bool() const { return data_ != nullptr; }
  void put(std::int64_t i, double value) const {
    if (in_f32_) {
      static_cast<Opmath<T>*>(data_)[i] = static_cast<Opmath<T>>(value);
    } else {
      static_cast<T*>(data_)[i] = rounded<T>(value);
    }
  }

 private:
  void* data_;
  bool in_f32_;
};

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
    static_cast<Opmath<T>*>(p.mean)[channel] = static_cast<Opmath<T>>(mean);
    static_cast<Opmath<T>*>(p.var)[channel] = static_cast<Opmath<T>>(squares / count);
  });
}

template <class T>
void batch_norm(const BatchNormParams& p) {
  using Wide = Opmath<T>;
  const BatchNormSizes& s = p.sizes;
  const Parameter<T> weight(p.weight, p.parameters_in_f32, 1), bias(p.bias, p.parameters_in_f32, 0);
  parallel_for(s.batch * s.channels, grain_for(s.plane), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t channel = row % s.channels;
      const Wide scale = static_cast<const Wide*>(p.inverse_std)[channel] * weight[channel];
      const Wide shift = bias[channel] - static_cast<const Wide*>(p.mean)[channel] * scale;
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
  using Wide = Opmath<T>;
  const auto scale = static_cast<Wide>(terms.scale);
  const auto factor = static_cast<Wide>(terms.inverse_std * terms.mean_product);
  const auto mean = static_cast<Wide>(terms.mean), mean_grad = static_cast<Wide>(terms.mean_grad);
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
  const Parameter<T> weights(p.weight, p.parameters_in_f32, 1);
  const ParameterGrad<T> weight_grad(p.weight_grad, p.parameters_in_f32), bias_grad(p.bias_grad, p.parameters_in_f32);
  for_each_channel(p.sizes, [&](std::int64_t channel) {
    const double mean = static_cast<const Opmath<T>*>(p.mean)[channel];
    const double inverse_std = static_cast<const Opmath<T>*>(p.inverse_std)[channel];
    const double weight = weights[channel];
    const double sum = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) { return grad[i]; });
    const double product = sum_channel<T>(p.sizes, channel, [&](std::int64_t i) {
      return static_cast<double>(grad[i]) * (static_cast<double>(in[i]) - mean);
    });
    if (weight_grad) weight_grad.put(channel, product * inverse_std);
    if (bias_grad) bias_grad.put(channel, sum);
    if (!p.input_grad) return;
    const double live = p.batch_stats ? 1 / count : 0;
    input_grad_channel<T>(p, channel,
                          {mean, inverse_std, inverse_std * weight, sum * live, product * inverse_std * live});
  });
}

template <class T>
void layer_norm(const LayerNormParams& p) {
  using Wide = Opmath<T>;
  const Parameter<T> weight(p.weight, p.parameters_in_f32, 1), bias(p.bias, p.parameters_in_f32, 0);
  const auto length = static_cast<double>(p.length);
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = static_cast<const T*>(p.input) + row * p.length;
      T* out = static_cast<T*>(p.output) + row * p.length;
      const auto shift = static_cast<Wide>(sum_run<T>(p.length, [&](std::int64_t i) { return in[i]; }) / length);
      const double squares = sum_run<T>(p.length, [&](std::int64_t i) { return (in[i] - shift) * (in[i] - shift); });
      const Wide scale = Wide(1) / std::sqrt(static_cast<Wide>(squares / length) + static_cast<Wide>(p.eps));
      static_cast<Wide*>(p.mean)[row] = shift;
      static_cast<Wide*>(p.inverse_std)[row] = scale;
      for (std::int64_t i = 0; i < p.length; ++i) out[i] = (in[i] - shift) * scale * weight[i] + bias[i];
    }
  });
}

/// Sums down the columns. One thread: rows are many and columns few, and the result must not depend on threads.
template <class T>
void layer_norm_parameter_grads(const LayerNormGradParams& p) {
  using Wide = Opmath<T>;
  const bool sums_apart = is_narrow<T> && !p.parameters_in_f32;
  std::vector<Wide> apart(sums_apart ? static_cast<std::size_t>(2 * p.length) : 0);
  const auto sums_of = [&](void* result, std::int64_t first) {
    return result == nullptr ? nullptr : sums_apart ? apart.data() + first : static_cast<Wide*>(result);
  };
  Wide *const weight_grad = sums_of(p.weight_grad, 0), *const bias_grad = sums_of(p.bias_grad, p.length);
  if (weight_grad) std::fill_n(weight_grad, p.length, Wide(0));
  if (bias_grad) std::fill_n(bias_grad, p.length, Wide(0));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* grad = static_cast<const T*>(p.output_grad) + row * p.length;
    const T* in = static_cast<const T*>(p.input) + row * p.length;
    const Wide mean = static_cast<const Wide*>(p.mean)[row], inverse_std = static_cast<const Wide*>(p.inverse_std)[row];
    for (std::int64_t i = 0; weight_grad && i < p.length; ++i) weight_grad[i] += grad[i] * (in[i] - mean) * inverse_std;
    for (std::int64_t i = 0; bias_grad && i < p.length; ++i) bias_grad[i] += grad[i];
  }
  if (!sums_apart) return;
  if (weight_grad)
    std::transform(weight_grad, weight_grad + p.length, static_cast<T*>(p.weight_grad), rounded<T, Wide>);
  if (bias_grad) std::transform(bias_grad, bias_grad + p.length, static_cast<T*>(p.bias_grad), rounded<T, Wide>);
}

template <class T>
void layer_norm_input_grad(const LayerNormGradParams& p, std::int64_t row) {
  const T* grad = static_cast<const T*>(p.output_grad) + row * p.length;
  const T* in = static_cast<const T*>(p.input) + row * p.length;
  using Wide = Opmath<T>;
  const Parameter<T> weight(p.weight, p.parameters_in_f32, 1);
  T* out = static_cast<T*>(p.input_grad) + row * p.length;
  const Wide mean = static_cast<const Wide*>(p.mean)[row], inverse_std = static_cast<const Wide*>(p.inverse_std)[row];
  const Wide scale = Wide(1) / static_cast<Wide>(p.length);
  // In PyTorch's order, precision and fused operations: with few elements a row the terms nearly cancel, and what is
  // left is rounding.
  Wide with_input = 0, alone = 0;
  for (std::int64_t i = 0; i < p.length; ++i) {
    const Wide w = weight[i];
    with_input += grad[i] * in[i] * w;
    alone += grad[i] * w;
  }
  const Wide slope = std::fma(alone, mean, -with_input) * inverse_std * inverse_std * inverse_std * scale;
  const Wide shift = std::fma(-slope, mean, -(alone * inverse_std * scale));
  for (std::int64_t i = 0; i < p.length; ++i) {
    out[i] = std::fma(slope, static_cast<Wide>(in[i]), inverse_std * grad[i] * weight[i]) + shift;
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
  add_for<NarrowHalf>(table, DType::f16);
  add_for<NarrowBFloat16>(table, DType::bf16);
}

}  // namespace core::cpu

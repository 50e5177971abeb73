// Layer normalisation of long rows, and the derivative of gelu: what a transformer does besides products and attention.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "libcore/backend/cpu/narrow_rows.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

constexpr std::int64_t kChunk = 32;  // vectors that are summed in single precision

std::int64_t grain_for(std::int64_t elements_each) {
  constexpr std::int64_t kWork = 16384;  // elements worth a thread's start
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, elements_each));
}

double total(const Floats& x) {
  double sum = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

/// Sum of value(first element, number of elements) over a row; each call gives up to kLanes values, zeros behind.
template <class Value>
double sum_row(std::int64_t length, Value value) {
  const std::int64_t full = length / kLanes * kLanes;
  double sum = 0;
  for (std::int64_t first = 0; first < full; first += kChunk * kLanes) {
    const std::int64_t end = std::min(full, first + kChunk * kLanes);
    Floats even{}, odd{};
    std::int64_t i = first;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      value(i, kLanes, even);
      value(i + kLanes, kLanes, odd);
    }
    if (i < end) value(i, kLanes, even);
    even += odd;
    sum += total(even);
  }
  if (full < length) {
    Floats rest{};
    value(full, length - full, rest);
    sum += total(rest);
  }
  return sum;
}

/// visit(first element, number of elements) over a row.
template <class Visit>
void for_each_group(std::int64_t length, Visit visit) {
  const std::int64_t full = length / kLanes * kLanes;
  for (std::int64_t i = 0; i < full; i += kLanes) visit(i, kLanes);
  if (full < length) visit(full, length - full);
}

/// `otherwise` where there is no array.
CORE_INLINE Floats load_or(const float* from, std::int64_t at, std::int64_t count, float otherwise) {
  return from != nullptr ? load_up_to<Floats>(from + at, count) : Floats{} + otherwise;
}

void norm_row(const LayerNormParams& p, std::int64_t row) {
  const float* in = static_cast<const float*>(p.input) + row * p.length;
  float* out = static_cast<float*>(p.output) + row * p.length;
  const auto length = static_cast<double>(p.length);
  const auto mean = static_cast<float>(
      sum_row(p.length, [in](std::int64_t i, std::int64_t n, Floats& sum) { sum += load_up_to<Floats>(in + i, n); }) /
      length);
  const double squares = sum_row(p.length, [in, mean](std::int64_t i, std::int64_t n, Floats& sum) {
    Floats x = load_up_to<Floats>(in + i, n) - mean;
    for (std::int64_t lane = n; lane < kLanes; ++lane) x[lane] = 0;  // that are not there add nothing
    sum += x * x;
  });
  const float scale = 1 / std::sqrt(static_cast<float>(squares / length) + static_cast<float>(p.eps));
  static_cast<float*>(p.mean)[row] = mean;
  static_cast<float*>(p.inverse_std)[row] = scale;
  for_each_group(p.length, [&](std::int64_t i, std::int64_t n) {
    const Floats weight = load_or(static_cast<const float*>(p.weight), i, n, 1);
    const Floats bias = load_or(static_cast<const float*>(p.bias), i, n, 0);
    store_up_to(out + i, (load_up_to<Floats>(in + i, n) - mean) * scale * weight + bias, n);
  });
}

void layer_norm(const LayerNormParams& p) {
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) norm_row(p, row);
  });
}

void input_grad_row(const LayerNormGradParams& p, std::int64_t row) {
  const float* grad = static_cast<const float*>(p.output_grad) + row * p.length;
  const float* in = static_cast<const float*>(p.input) + row * p.length;
  const auto* weight = static_cast<const float*>(p.weight);
  float* out = static_cast<float*>(p.input_grad) + row * p.length;
  const float mean = static_cast<const float*>(p.mean)[row];
  const double inverse_std = static_cast<const float*>(p.inverse_std)[row];
  const double alone = sum_row(p.length, [=](std::int64_t i, std::int64_t n, Floats& sum) {
    sum += load_up_to<Floats>(grad + i, n) * load_or(weight, i, n, 1);
  });
  const double with_input = sum_row(p.length, [=](std::int64_t i, std::int64_t n, Floats& sum) {
    const Floats g = load_up_to<Floats>(grad + i, n), x = load_up_to<Floats>(in + i, n);
    sum += g * load_or(weight, i, n, 1) * (x - mean);
  });
  const double share = inverse_std / static_cast<double>(p.length);
  const auto slope = static_cast<float>(-with_input * inverse_std * inverse_std * share);
  const auto shift = static_cast<float>(-alone * share), scale = static_cast<float>(inverse_std);
  for_each_group(p.length, [&](std::int64_t i, std::int64_t n) {
    const Floats g = load_up_to<Floats>(grad + i, n), x = load_up_to<Floats>(in + i, n);
    store_up_to(out + i, g * load_or(weight, i, n, 1) * scale + ((x - mean) * slope + shift), n);
  });
}

/// Sums down some columns: bias_grad of the gradient, weight_grad of its products with the normalised input.
void parameter_grads(const LayerNormGradParams& p, std::int64_t first, std::int64_t count) {
  double weight_sums[kLanes] = {}, bias_sums[kLanes] = {};
  for (std::int64_t begin = 0; begin < p.rows; begin += kChunk) {
    Floats weight{}, bias{};
    for (std::int64_t row = begin; row < std::min(p.rows, begin + kChunk); ++row) {
      Floats grad = load_up_to<Floats>(static_cast<const float*>(p.output_grad) + row * p.length + first, count);
      Floats x = load_up_to<Floats>(static_cast<const float*>(p.input) + row * p.length + first, count);
      x = (x - static_cast<const float*>(p.mean)[row]) * static_cast<const float*>(p.inverse_std)[row];
      weight += grad * x;
      bias += grad;
    }
    for (std::int64_t c = 0; c < count; ++c) {
      weight_sums[c] += static_cast<double>(weight[c]);
      bias_sums[c] += static_cast<double>(bias[c]);
    }
  }
  auto* weight_grad = static_cast<float*>(p.weight_grad);
  auto* bias_grad = static_cast<float*>(p.bias_grad);
  for (std::int64_t c = 0; c < count; ++c) {
    if (weight_grad != nullptr) weight_grad[first + c] = static_cast<float>(weight_sums[c]);
    if (bias_grad != nullptr) bias_grad[first + c] = static_cast<float>(bias_sums[c]);
  }
}

void layer_norm_grad(const LayerNormGradParams& p) {
  if (p.weight_grad != nullptr || p.bias_grad != nullptr) {
    const std::int64_t groups = (p.length + kLanes - 1) / kLanes;
    parallel_for(groups, grain_for(p.rows * kLanes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t g = begin; g < end; ++g)
        parameter_grads(p, g * kLanes, std::min(kLanes, p.length - g * kLanes));
    });
  }
  if (p.input_grad == nullptr) return;
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) input_grad_row(p, row);
  });
}

const void* element(const void* numbers, std::int64_t i) {
  return static_cast<const std::byte*>(numbers) + 2 * i;
}
void* element(void* numbers, std::int64_t i) {
  return static_cast<std::byte*>(numbers) + 2 * i;
}

/// Weight or bias beside numbers of 16 bits, as f32.
template <DType kType>
class WideParameter {
 public:
  WideParameter(const void* data, bool in_f32, std::int64_t count)
      : given_(static_cast<const float*>(in_f32 ? data : nullptr)), wide_(kType, in_f32 ? nullptr : data, count) {}
  const float* data() const { return given_ != nullptr ? given_ : wide_.data(); }

 private:
  const float* given_;
  WideArray wide_;
};

/// Of 16 bits: some rows at a time as f32 and back, while they are in the first cache.
template <DType kType>
void layer_norm_narrow(const LayerNormParams& p) {
  constexpr std::int64_t kElements = 2048;
  const WideParameter<kType> weight(p.weight, p.parameters_in_f32, p.length);
  const WideParameter<kType> bias(p.bias, p.parameters_in_f32, p.length);
  parallel_for(p.rows, grain_for(p.length), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t most = std::clamp<std::int64_t>(kElements / p.length, 1, end - begin);
    const CallMemory in(most * p.length), out(most * p.length);
    for (std::int64_t first = begin; first < end; first += most) {
      const std::int64_t rows = std::min(most, end - first), count = rows * p.length;
      widen_row(kType, element(p.input, first * p.length), count, in.data());
      const LayerNormParams some{rows,
                                 p.length,
                                 p.eps,
                                 in.data(),
                                 weight.data(),
                                 bias.data(),
                                 out.data(),
                                 static_cast<float*>(p.mean) + first,
                                 static_cast<float*>(p.inverse_std) + first};
      for (std::int64_t row = 0; row < rows; ++row) norm_row(some, row);
      round_row(kType, out.data(), count, element(p.output, first * p.length));
    }
  });
}

/// Of 16 bits: everything as f32, as the sums down the columns want it.
template <DType kType>
void layer_norm_grad_narrow(const LayerNormGradParams& p) {
  const std::int64_t count = p.rows * p.length;
  const WideArray grad(kType, p.output_grad, count), in(kType, p.input, count);
  const WideParameter<kType> weight(p.weight, p.parameters_in_f32, p.length);
  const CallMemory in_grad(p.input_grad != nullptr ? count : 0), sums(2 * p.length);
  LayerNormGradParams wide = p;
  wide.output_grad = grad.data(), wide.input = in.data(), wide.weight = weight.data();
  if (p.input_grad != nullptr) wide.input_grad = in_grad.data();
  if (!p.parameters_in_f32 && p.weight_grad != nullptr) wide.weight_grad = sums.data();
  if (!p.parameters_in_f32 && p.bias_grad != nullptr) wide.bias_grad = sums.data() + p.length;
  layer_norm_grad(wide);
  if (p.input_grad != nullptr) round_array(kType, in_grad.data(), count, p.input_grad);
  if (wide.weight_grad != p.weight_grad) round_row(kType, sums.data(), p.length, p.weight_grad);
  if (wide.bias_grad != p.bias_grad) round_row(kType, sums.data() + p.length, p.length, p.bias_grad);
}

template <DType kType>
void add_narrow(NnTable& table) {
  table.layer_norm_long[static_cast<std::size_t>(kType)] = layer_norm_narrow<kType>;
  table.layer_norm_long_grad[static_cast<std::size_t>(kType)] = layer_norm_grad_narrow<kType>;
}

/// grad * (0.5 (1 + t) + 0.5 x (1 - t^2) u'), t = tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3)
CORE_INLINE Floats gelu_slope(const Floats& x) {
  constexpr float kRoot = 0.7978845608F, kCube = 0.044715F;
  const Floats square = x * x;
  const Floats e = exp_of((x + x * square * kCube) * (2 * kRoot));
  const Floats t = 1.0F - 2.0F / (e + 1.0F);
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * (square * (3 * kCube) + 1.0F) * kRoot;
}

void gelu_tanh_grad(const GeluGradParams& p) {
  const auto* grad = static_cast<const float*>(p.output_grad);
  const auto* in = static_cast<const float*>(p.input);
  auto* out = static_cast<float*>(p.input_grad);
  parallel_for(p.count, 16384, [&](std::int64_t begin, std::int64_t end) {
    for_each_group(end - begin, [&](std::int64_t i, std::int64_t n) {
      const Floats x = load_up_to<Floats>(in + begin + i, n), g = load_up_to<Floats>(grad + begin + i, n);
      store_up_to(out + begin + i, gelu_slope(x) * g, n);
    });
  });
}

}  // namespace

void fill_long_layer_norms(NnTable& table) {
  const auto f32 = static_cast<std::size_t>(DType::f32);
  table.layer_norm_long[f32] = layer_norm;
  table.layer_norm_long_grad[f32] = layer_norm_grad;
  table.gelu_tanh_grad[f32] = gelu_tanh_grad;
  add_narrow<DType::f16>(table);
  add_narrow<DType::bf16>(table);
}

}  // namespace core::cpu::CORE_CPU_VARIANT

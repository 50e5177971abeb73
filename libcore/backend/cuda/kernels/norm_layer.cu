// Layer normalisation, and the derivatives of gelu and dropout. A team takes a row, in packs of 16 bytes where rows
// allow, or a lane alone where rows are short; the rows are read again from the nearest cache. Statistics of f16 and
// bf16 are f32.
#include "libcore/backend/cuda/kernels/columns.h"
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {
namespace {

template <class T, int V>
struct NormRow {
  LayerNormParams p;

  template <class Lanes>
  CORE_BODY void operator()(const Lanes& team, std::int64_t row) const {
    using W = Computed<T>;
    const T* in = static_cast<const T*>(p.input) + row * p.length;
    T* out = static_cast<T*>(p.output) + row * p.length;
    const Parameter<T> weight(p.weight, p.parameters_in_f32), bias(p.bias, p.parameters_in_f32);
    const std::int64_t begin = std::int64_t{V} * team.lane(), stride = std::int64_t{V} * team.size();
    W sum = 0, squares = 0, x[V], w[V], b[V];
    for (std::int64_t i = begin; i < p.length; i += stride) {
      load_pack<V>(in + i, x);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) sum += x[k];
    }
    const W mean = team.reduce(sum, Plus()) / static_cast<W>(p.length);
    for (std::int64_t i = begin; i < p.length; i += stride) {
      load_pack<V>(in + i, x);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) squares += (x[k] - mean) * (x[k] - mean);
    }
    const W var = team.reduce(squares, Plus()) / static_cast<W>(p.length);
    const W scale = 1 / std::sqrt(var + static_cast<W>(p.eps));
    for (std::int64_t i = begin; i < p.length; i += stride) {
      load_pack<V>(in + i, x);
      weight.template load<V>(i, 1, w);
      bias.template load<V>(i, 0, b);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) x[k] = (x[k] - mean) * scale * w[k] + b[k];
      store_pack<V>(x, out + i);
    }
    if (team.lane() != 0) return;
    static_cast<W*>(p.mean)[row] = mean;
    static_cast<W*>(p.inverse_std)[row] = scale;
  }
};

template <class T, int V>
struct InputGradRow {
  LayerNormGradParams p;

  template <class Lanes>
  CORE_BODY void operator()(const Lanes& team, std::int64_t row) const {
    using W = Computed<T>;
    const T* grad = static_cast<const T*>(p.output_grad) + row * p.length;
    const T* in = static_cast<const T*>(p.input) + row * p.length;
    const Parameter<T> weight(p.weight, p.parameters_in_f32);
    T* out = static_cast<T*>(p.input_grad) + row * p.length;
    const W mean = static_cast<const W*>(p.mean)[row], inverse_std = static_cast<const W*>(p.inverse_std)[row];
    const std::int64_t begin = std::int64_t{V} * team.lane(), stride = std::int64_t{V} * team.size();
    W alone = 0, with_input = 0, g[V], x[V], w[V];
    for (std::int64_t i = begin; i < p.length; i += stride) {
      load_pack<V>(grad + i, g);
      load_pack<V>(in + i, x);
      weight.template load<V>(i, 1, w);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) {
        alone += g[k] * w[k];
        with_input += g[k] * w[k] * (x[k] - mean);
      }
    }
    const W share = inverse_std / static_cast<W>(p.length);
    const W shift = -team.reduce(alone, Plus()) * share;
    const W slope = -team.reduce(with_input, Plus()) * inverse_std * inverse_std * share;
    for (std::int64_t i = begin; i < p.length; i += stride) {
      load_pack<V>(grad + i, g);
      load_pack<V>(in + i, x);
      weight.template load<V>(i, 1, w);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) x[k] = g[k] * w[k] * inverse_std + ((x[k] - mean) * slope + shift);
      store_pack<V>(x, out + i);
    }
  }
};

template <class T>
void layer_norm(const LayerNormParams& p) {
  const bool alone = p.length <= kShortRow;
  with_packs<T>(!alone && fit_packs<T>(p.length, p.input, p.output, p.weight, p.bias),
                [&]<int V>() { for_each_line(p.rows, p.length, alone, NormRow<T, V>{p}); });
}

template <class W>
struct ParameterSums {
  W weight = 0, bias = 0;
};
struct AddParameterSums {
  template <class W>
  CORE_BODY ParameterSums<W> operator()(const ParameterSums<W>& a, const ParameterSums<W>& b) const {
    return {a.weight + b.weight, a.bias + b.bias};
  }
};

/// What some of the rows give to the gradients of weight and bias at one column.
template <class T>
struct ParameterColumn {
  LayerNormGradParams p;

  CORE_BODY ParameterSums<Computed<T>> operator()(std::int64_t column, std::int64_t begin, std::int64_t end,
                                                  std::int64_t step) const {
    using W = Computed<T>;
    ParameterSums<W> sums;
    for (std::int64_t row = begin; row < end; row += step) {
      const W g = widen(static_cast<const T*>(p.output_grad)[row * p.length + column]);
      const W x = widen(static_cast<const T*>(p.input)[row * p.length + column]);
      sums.weight += g * (x - static_cast<const W*>(p.mean)[row]) * static_cast<const W*>(p.inverse_std)[row];
      sums.bias += g;
    }
    return sums;
  }
};

template <class T>
void parameter_grads(const LayerNormGradParams& p) {
  using Sums = ParameterSums<Computed<T>>;
  const bool wide = p.parameters_in_f32;
  const Parameter<T> weight_grad(p.weight_grad, wide), bias_grad(p.bias_grad, wide);
  sum_columns<Sums>(p.rows, p.length, ParameterColumn<T>{p}, AddParameterSums(),
                    [=] CORE_BODY(std::int64_t column, const Sums& all) {
                      weight_grad.put(column, all.weight);
                      bias_grad.put(column, all.bias);
                    });
}

template <class T>
void layer_norm_grad(const LayerNormGradParams& p) {
  if (p.weight_grad != nullptr || p.bias_grad != nullptr) parameter_grads<T>(p);
  if (p.input_grad == nullptr) return;
  const bool alone = p.length <= kShortRow;
  with_packs<T>(!alone && fit_packs<T>(p.length, p.output_grad, p.input, p.input_grad, p.weight),
                [&]<int V>() { for_each_line(p.rows, p.length, alone, InputGradRow<T, V>{p}); });
}

/// grad * (0.5 (1 + t) + 0.5 x (1 - t^2) u'), t = tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class T>
void gelu_tanh_grad(const GeluGradParams& p) {
  using W = Computed<T>;
  const auto *grad = static_cast<const T*>(p.output_grad), *in = static_cast<const T*>(p.input);
  auto* out = static_cast<T*>(p.input_grad);
  for_each(p.count, [=] CORE_BODY(std::int64_t i) {
    constexpr W kRoot = static_cast<W>(0.7978845608028654), kCube = static_cast<W>(0.044715);
    const W x = widen(in[i]), square = x * x, half = static_cast<W>(0.5);
    const W t = std::tanh(kRoot * (x + x * square * kCube));
    const W slope = half * (1 + t) + half * x * (1 - t * t) * (square * (3 * kCube) + 1) * kRoot;
    out[i] = narrow<T>(widen(grad[i]) * slope);
  });
}

/// V neighbours. The product is of three, not of two where the mask is false: NaN and infinities go through.
template <class T, int V>
struct MaskedScale {
  MaskedScaleParams p;
  CORE_BODY void operator()(std::int64_t i) const {
    using W = Computed<T>;
    const auto mask = static_cast<const Pack<bool, V>*>(static_cast<const void*>(p.mask))[i];
    W x[V];
    load_pack<V>(static_cast<const T*>(p.in) + i * V, x);
    CORE_UNROLL
    for (int k = 0; k < V; ++k) x[k] = x[k] * (mask.values[k] ? W(1) : W(0)) * static_cast<W>(p.scale);
    store_pack<V>(x, static_cast<T*>(p.out) + i * V);
  }
};

template <class T>
void masked_scale(const MaskedScaleParams& p) {
  with_packs<T>(fit_packs<T>(p.count, p.in, p.out) && is_aligned(p.mask, kPackSize<T>),
                [&]<int V>() { for_each(p.count / V, MaskedScale<T, V>{p}); });
}

}  // namespace

void fill_layer_norm(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.layer_norm[slot] = layer_norm<T>;
    table.layer_norm_grad[slot] = layer_norm_grad<T>;
    table.layer_norm_long[slot] = layer_norm<T>;
    table.layer_norm_long_grad[slot] = layer_norm_grad<T>;
    table.gelu_tanh_grad[slot] = gelu_tanh_grad<T>;
    table.masked_scale[slot] = masked_scale<T>;
  });
}

}  // namespace core::CORE_KERNELS

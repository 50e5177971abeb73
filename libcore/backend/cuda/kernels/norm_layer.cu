// Layer normalisation and the derivative of gelu. A team takes a row, in packs of 16 bytes where rows allow, or a lane
// alone where rows are short; the rows are read again from the nearest cache. Statistics of f16 and bf16 are f32.
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

/// Sums down the columns: a team sums a block of columns over a part of the rows; the parts are added in their order.
struct ColumnParts {
  static constexpr std::int64_t kColumns = 32, kRowsAtOnce = 8, kLanes = kColumns * kRowsAtOnce;
  std::int64_t rows, length, blocks, parts, part_size;

  ColumnParts(std::int64_t rows_, std::int64_t length_) : rows(rows_), length(length_) {
    constexpr std::int64_t kTeams = 1024, kFewest = 64;  // teams that fill a GPU; rows worth a team
    blocks = divide_up(length, kColumns);
    parts = larger<std::int64_t>(1, smaller(kTeams / larger<std::int64_t>(1, blocks), rows / kFewest));
    part_size = divide_up(rows, parts);
  }
};

template <class W>
struct ParameterSums {
  W weight = 0, bias = 0;
};

/// Sums of one part of the rows over one block of columns.
template <class T>
struct SumColumns {
  LayerNormGradParams p;
  ColumnParts c;
  SizeDivider per_block;
  ParameterSums<Computed<T>>* found;  // (parts, length)

  using Sums = ParameterSums<Computed<T>>;

  CORE_BODY void operator()(const Team& team, std::int64_t index) const {
    const auto at = per_block.divide(index);
    const std::int64_t part = at.quotient, first = at.remainder * c.kColumns;
    const std::int64_t begin = part * c.part_size, end = smaller(c.rows, begin + c.part_size);
    Sums* shared = team.shared<Sums>();
    for (std::int64_t item = team.lane(); item < c.kLanes; item += team.size()) {
      const std::int64_t column = first + item % c.kColumns;
      shared[item] = column < c.length ? sum_rows(column, begin + item / c.kColumns, end) : Sums();
    }
    team.sync();
    for (std::int64_t k = team.lane(); k < c.kColumns && first + k < c.length; k += team.size()) {
      Sums all = shared[k];
      for (std::int64_t i = 1; i < c.kRowsAtOnce; ++i) {
        all.weight += shared[i * c.kColumns + k].weight;
        all.bias += shared[i * c.kColumns + k].bias;
      }
      found[part * c.length + first + k] = all;
    }
  }

 private:
  CORE_BODY Sums sum_rows(std::int64_t column, std::int64_t begin, std::int64_t end) const {
    using W = Computed<T>;
    Sums sums;
    for (std::int64_t row = begin; row < end; row += c.kRowsAtOnce) {
      const W g = widen(static_cast<const T*>(p.output_grad)[row * c.length + column]);
      const W x = widen(static_cast<const T*>(p.input)[row * c.length + column]);
      sums.weight += g * (x - static_cast<const W*>(p.mean)[row]) * static_cast<const W*>(p.inverse_std)[row];
      sums.bias += g;
    }
    return sums;
  }
};

template <class T>
void parameter_grads(const LayerNormGradParams& p) {
  using Sums = ParameterSums<Computed<T>>;
  const ColumnParts c(p.rows, p.length);
  const Scratch scratch(static_cast<std::size_t>(c.parts * c.length) * sizeof(Sums));
  auto* found = scratch.as<Sums>();
  const SumColumns<T> body{p, c, SizeDivider(c.blocks), found};
  for_each_row(c.blocks * c.parts, c.kLanes, c.kLanes * sizeof(Sums),
               [=] CORE_BODY(const Team& team, std::int64_t index) { body(team, index); });
  const bool wide = p.parameters_in_f32;
  const Parameter<T> weight_grad(p.weight_grad, wide), bias_grad(p.bias_grad, wide);
  for_each(c.length, [=] CORE_BODY(std::int64_t column) {
    Sums all;
    for (std::int64_t part = 0; part < c.parts; ++part) {
      all.weight += found[part * c.length + column].weight;
      all.bias += found[part * c.length + column].bias;
    }
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

}  // namespace

void fill_layer_norm(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.layer_norm[slot] = layer_norm<T>;
    table.layer_norm_grad[slot] = layer_norm_grad<T>;
    table.layer_norm_long[slot] = layer_norm<T>;
    table.layer_norm_long_grad[slot] = layer_norm_grad<T>;
    table.gelu_tanh_grad[slot] = gelu_tanh_grad<T>;
  });
}

}  // namespace core::CORE_KERNELS

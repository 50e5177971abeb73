// The steps of an LSTM layer. Rows of a batch do not see each other: where the weights of the state fit into shared
// memory, a team takes a row through all its steps in one launch; else each step is a product of tiles that goes
// straight into the gates.
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/cuda/kernels/tile_product.h"
#include "libcore/backend/recurrent_table.h"

namespace core::CORE_KERNELS {
namespace {

/// The arrays of a forward pass.
template <class T>
struct LstmArrays {
  RecurrentSizes s;
  const T *w_hh, *h0, *c0;
  T *gates, *cells, *tanhs, *hidden;

  explicit LstmArrays(const LstmParams& p)
      : s(p.sizes),
        w_hh(static_cast<const T*>(p.w_hh)),
        h0(static_cast<const T*>(p.h0)),
        c0(static_cast<const T*>(p.c0)),
        gates(static_cast<T*>(p.gates)),
        cells(static_cast<T*>(p.cells)),
        tanhs(static_cast<T*>(p.tanhs)),
        hidden(static_cast<T*>(p.hidden)) {}

  /// Row of the arrays at step i of row `row`; -1 before the first: the start.
  CORE_HD std::int64_t place(std::int64_t i, std::int64_t row) const {
    return i < 0 ? -1 : (s.reverse ? s.steps - 1 - i : i) * s.batch + row;
  }
  /// Activates the gates of unit k and makes its c, tanh(c) and h; `sums`: what the state adds to the gates' sums. The
  /// new h, unrounded.
  CORE_BODY Computed<T> step(std::int64_t at, std::int64_t k, Computed<T> before, const Four<Computed<T>>& sums) const {
    using W = Computed<T>;
    T* gate = gates + at * 4 * s.hidden + k;
    const W in = sigmoid<W>(widen(gate[0]) + sums.values[0]);
    const W forget = sigmoid<W>(widen(gate[s.hidden]) + sums.values[1]);
    const W cell = std::tanh(widen(gate[2 * s.hidden]) + sums.values[2]);
    const W out = sigmoid<W>(widen(gate[3 * s.hidden]) + sums.values[3]);
    const W c = forget * before + in * cell, t = std::tanh(c);
    gate[0] = narrow<T>(in);
    gate[s.hidden] = narrow<T>(forget);
    gate[2 * s.hidden] = narrow<T>(cell);
    gate[3 * s.hidden] = narrow<T>(out);
    cells[at * s.hidden + k] = narrow<T>(c);
    tanhs[at * s.hidden + k] = narrow<T>(t);
    hidden[at * s.hidden + k] = narrow<T>(out * t);
    return out * t;
  }
};

/// Shared memory of a team: the weights with rows of n + 1, so that neighbouring rows begin in different banks, then
/// the sums of the gates, then the state.
template <class W>
std::int64_t shared_bytes(std::int64_t hidden) {
  return (4 * hidden * (hidden + 1) + 4 * hidden + hidden) * std::int64_t{sizeof(W)};
}

/// Up to 109 units of f32 and 16 bits, 76 of f64: with so many bytes to share a team still has a multiprocessor's
/// caches to itself. Then one launch does all steps, and a library's launches for each step cannot be faster; a wider
/// layer is a library's, where there is one.
template <class W>
bool fits_a_team(std::int64_t hidden) {
  constexpr std::int64_t kMostShared = 190 << 10;
  return shared_bytes<W>(hidden) <= smaller(kMostShared, most_shared_bytes());
}

template <class T>
CORE_BODY void load_weights(const Team& team, const T* w_hh, const SizeDivider& per_row, Computed<T>* to) {
  const std::int64_t n = per_row.divisor();
  for (std::int64_t i = team.lane(); i < 4 * n * n; i += team.size()) {
    const auto at = per_row.divide(i);
    to[at.quotient * (n + 1) + at.remainder] = widen(w_hh[i]);
  }
}

template <class T>
CORE_BODY void lstm_row(const Team& team, const LstmArrays<T>& a, const SizeDivider& per_row, std::int64_t row) {
  using W = Computed<T>;
  const std::int64_t n = a.s.hidden;
  W* weights = team.shared<W>();
  W* sums = weights + 4 * n * (n + 1);
  W* h = sums + 4 * n;
  load_weights(team, a.w_hh, per_row, weights);
  for (std::int64_t k = team.lane(); k < n; k += team.size()) h[k] = widen(a.h0[row * n + k]);
  for (std::int64_t i = 0; i < a.s.steps; ++i) {
    team.sync();
    for (std::int64_t j = team.lane(); j < 4 * n; j += team.size()) {
      W sum = 0;
      for (std::int64_t k = 0; k < n; ++k) sum += weights[j * (n + 1) + k] * h[k];
      sums[j] = sum;
    }
    team.sync();
    const std::int64_t at = a.place(i, row), before = a.place(i - 1, row);
    for (std::int64_t k = team.lane(); k < n; k += team.size()) {
      const W c = widen(before < 0 ? a.c0[row * n + k] : a.cells[before * n + k]);
      h[k] = widen(narrow<T>(a.step(at, k, c, {{sums[k], sums[n + k], sums[2 * n + k], sums[3 * n + k]}})));
    }
  }
}

/// One step as a product: h (batch x n) * w_hh^T (n x 4 n), the four gates of a unit side by side.
template <class T>
struct LstmStep {
  using Element = T;
  using Sum = Computed<T>;
  using Column = std::int64_t;  // row of the weights
  using Step = std::int64_t;    // its element
  static constexpr bool kBAlongDepth = true;
  LstmArrays<T> arrays;
  std::int64_t rows, columns, first;
  const T *h, *c;

  LstmStep(const LstmArrays<T>& a, std::int64_t i) : arrays(a), rows(a.s.batch), columns(4 * a.s.hidden) {
    const std::int64_t before = a.place(i - 1, 0);
    first = a.place(i, 0);
    h = before < 0 ? a.h0 : a.hidden + before * a.s.hidden;
    c = before < 0 ? a.c0 : a.cells + before * a.s.hidden;
  }
  CORE_BODY const LstmStep& of(std::int64_t, std::int64_t) const { return *this; }
  CORE_BODY Column column(std::int64_t n) const { return n % 4 * arrays.s.hidden + n / 4; }
  CORE_BODY Step step(std::int64_t k) const { return k; }
  CORE_BODY Sum a(std::int64_t row, Step k) const { return widen(h[row * arrays.s.hidden + k]); }
  CORE_BODY Sum b(Step k, Column row) const { return widen(arrays.w_hh[row * arrays.s.hidden + k]); }
  CORE_BODY void finish(std::int64_t row, std::int64_t column, const Column*, int, const Four<Sum>& sums) const {
    const std::int64_t unit = column / 4;
    arrays.step(first + row, unit, widen(c[row * arrays.s.hidden + unit]), sums);
  }
};

template <class T>
void lstm(const LstmParams& p) {
  const RecurrentSizes& s = p.sizes;
  const LstmArrays<T> arrays(p);
  const std::int64_t bytes = shared_bytes<Computed<T>>(s.hidden);
  if (s.batch == 0 || s.hidden == 0) return;
  if (fits_a_team<Computed<T>>(s.hidden)) {
    const SizeDivider per_row(s.hidden);
    for_each_row(s.batch, 4 * s.hidden, static_cast<std::size_t>(bytes),
                 [=] CORE_BODY(const Team& team, std::int64_t row) { lstm_row(team, arrays, per_row, row); });
    return;
  }
  const TileGrid grid(s.batch, 4 * s.hidden, s.hidden, 1, 1);
  for (std::int64_t i = 0; i < s.steps; ++i) multiply_tiles(grid, LstmStep<T>(arrays, i));
}

template <class T>
struct LstmGradArrays {
  RecurrentSizes s;
  const T *w_hh, *c0, *gates, *cells, *tanhs, *output_grad;
  T *sums_grad, *h_grad, *c_grad;

  explicit LstmGradArrays(const LstmGradParams& p)
      : s(p.sizes),
        w_hh(static_cast<const T*>(p.w_hh)),
        c0(static_cast<const T*>(p.c0)),
        gates(static_cast<const T*>(p.gates)),
        cells(static_cast<const T*>(p.cells)),
        tanhs(static_cast<const T*>(p.tanhs)),
        output_grad(static_cast<const T*>(p.output_grad)),
        sums_grad(static_cast<T*>(p.sums_grad)),
        h_grad(static_cast<T*>(p.h_grad)),
        c_grad(static_cast<T*>(p.c_grad)) {}

  /// Gradients of the sums of the four gates of unit k, and what is carried on to the step before.
  CORE_BODY Four<Computed<T>> step(std::int64_t i, std::int64_t row, std::int64_t k, Computed<T> dh,
                                   Computed<T>& dc) const {
    using W = Computed<T>;
    const auto place = [&](std::int64_t step) { return (s.reverse ? s.steps - 1 - step : step) * s.batch + row; };
    const std::int64_t n = s.hidden, at = place(i);
    const T* gate = gates + at * 4 * n + k;
    const W in = widen(gate[0]), forget = widen(gate[n]), cell = widen(gate[2 * n]), out = widen(gate[3 * n]);
    const W t = widen(tanhs[at * n + k]);
    const W before = widen(i == 0 ? c0[row * n + k] : cells[place(i - 1) * n + k]);
    const W d = output_grad == nullptr ? dh : dh + widen(output_grad[at * n + k]);
    const W of_cell = dc + d * out * (1 - t * t);
    dc = of_cell * forget;
    const Four<W> sums{{of_cell * cell * in * (1 - in), of_cell * before * forget * (1 - forget),
                        of_cell * in * (1 - cell * cell), d * t * out * (1 - out)}};
    T* to = sums_grad + at * 4 * n + k;
    CORE_UNROLL
    for (int gate_index = 0; gate_index < 4; ++gate_index) to[gate_index * n] = narrow<T>(sums.values[gate_index]);
    return sums;
  }
};

template <class T>
CORE_BODY void lstm_grad_row(const Team& team, const LstmGradArrays<T>& a, const SizeDivider& per_row,
                             std::int64_t row) {
  using W = Computed<T>;
  const std::int64_t n = a.s.hidden;
  W* weights = team.shared<W>();
  W* sums = weights + 4 * n * (n + 1);
  W* dc = sums + 4 * n;
  load_weights(team, a.w_hh, per_row, weights);
  for (std::int64_t k = team.lane(); k < n; k += team.size()) dc[k] = widen(a.c_grad[row * n + k]);
  for (std::int64_t i = a.s.steps - 1; i >= 0; --i) {
    for (std::int64_t k = team.lane(); k < n; k += team.size()) {
      const Four<W> four = a.step(i, row, k, widen(a.h_grad[row * n + k]), dc[k]);
      CORE_UNROLL
      for (int gate = 0; gate < 4; ++gate) sums[gate * n + k] = four.values[gate];
    }
    team.sync();
    for (std::int64_t k = team.lane(); k < n; k += team.size()) {
      W sum = 0;
      for (std::int64_t j = 0; j < 4 * n; ++j) sum += sums[j] * weights[j * (n + 1) + k];
      a.h_grad[row * n + k] = narrow<T>(sum);
    }
    team.sync();
  }
  for (std::int64_t k = team.lane(); k < n; k += team.size()) a.c_grad[row * n + k] = narrow<T>(dc[k]);
}

/// h_grad (batch x n) = sums_grad of one step (batch x 4 n) * w_hh (4 n x n).
template <class T>
struct LstmGradStep {
  using Element = T;
  using Sum = Computed<T>;
  using Column = std::int64_t;
  using Step = std::int64_t;
  static constexpr bool kBAlongDepth = false;
  std::int64_t rows, columns;
  const T *sums, *w_hh;
  T* h_grad;

  CORE_BODY const LstmGradStep& of(std::int64_t, std::int64_t) const { return *this; }
  CORE_BODY Column column(std::int64_t n) const { return n; }
  CORE_BODY Step step(std::int64_t k) const { return k; }
  CORE_BODY Sum a(std::int64_t row, Step k) const { return widen(sums[row * 4 * columns + k]); }
  CORE_BODY Sum b(Step k, Column column) const { return widen(w_hh[k * columns + column]); }
  CORE_BODY void finish(std::int64_t row, std::int64_t column, const Column*, int count, const Four<Sum>& sum) const {
    CORE_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i < count) h_grad[row * columns + column + i] = narrow<T>(sum.values[i]);
    }
  }
};

template <class T>
void lstm_grad_steps(const LstmGradArrays<T>& a) {
  const RecurrentSizes& s = a.s;
  const SizeDivider per_row(s.hidden);
  const TileGrid grid(s.batch, s.hidden, 4 * s.hidden, 1, 1);
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    for_each(s.batch * s.hidden, [=] CORE_BODY(std::int64_t at) {
      const auto unit = per_row.divide(at);
      Computed<T> dc = widen(a.c_grad[at]);
      a.step(i, unit.quotient, unit.remainder, widen(a.h_grad[at]), dc);
      a.c_grad[at] = narrow<T>(dc);
    });
    const std::int64_t first = (s.reverse ? s.steps - 1 - i : i) * s.batch;
    multiply_tiles(grid, LstmGradStep<T>{s.batch, s.hidden, a.sums_grad + first * 4 * s.hidden, a.w_hh, a.h_grad});
  }
}

template <class T>
void lstm_grad(const LstmGradParams& p) {
  const RecurrentSizes& s = p.sizes;
  const LstmGradArrays<T> arrays(p);
  const std::int64_t bytes = shared_bytes<Computed<T>>(s.hidden);
  if (s.batch == 0 || s.hidden == 0) return;
  if (!fits_a_team<Computed<T>>(s.hidden)) return lstm_grad_steps(arrays);
  const SizeDivider per_row(s.hidden);
  for_each_row(s.batch, s.hidden, static_cast<std::size_t>(bytes),
               [=] CORE_BODY(const Team& team, std::int64_t row) { lstm_grad_row(team, arrays, per_row, row); });
}

}  // namespace

void fill_recurrent(RecurrentTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.lstm[slot] = lstm<T>;
    table.lstm_grad[slot] = lstm_grad<T>;
    table.is_lstm_one_launch[slot] = fits_a_team<Computed<T>>;
  });
  fill_recurrent_cells(table);
}

}  // namespace core::CORE_KERNELS

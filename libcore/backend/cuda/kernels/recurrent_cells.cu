// What a step of a GRU or of a plain recurrent layer does between its products: one launch.
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/recurrent_table.h"

namespace core::CORE_KERNELS {
namespace {

/// gates, sums: (batch, parts * hidden).
template <class T>
void gru_cell(const GruCellParams& p) {
  using W = Computed<T>;
  const std::int64_t n = p.hidden;
  const SizeDivider per_row(n);
  const auto *x = static_cast<const T*>(p.input_sums), *s = static_cast<const T*>(p.hidden_sums);
  const auto* before = static_cast<const T*>(p.before);
  auto *gates = static_cast<T*>(p.gates), *fresh = static_cast<T*>(p.fresh);
  auto *recalled = static_cast<T*>(p.recalled), *after = static_cast<T*>(p.after);
  for_each(p.batch * n, [=] CORE_BODY(std::int64_t i) {
    const auto at = per_row.divide(i);
    const std::int64_t sums = at.quotient * 3 * n + at.remainder, gate = at.quotient * 2 * n + at.remainder;
    const W reset = sigmoid<W>(widen(x[sums]) + widen(s[sums]));
    const W update = sigmoid<W>(widen(x[sums + n]) + widen(s[sums + n]));
    const W recall = widen(s[sums + 2 * n]);
    const W made = std::tanh(widen(x[sums + 2 * n]) + reset * recall);
    gates[gate] = narrow<T>(reset);
    gates[gate + n] = narrow<T>(update);
    fresh[i] = narrow<T>(made);
    recalled[i] = narrow<T>(recall);
    after[i] = narrow<T>((widen(before[i]) - made) * update + made);
  });
}

template <class T>
void gru_cell_grad(const GruCellGradParams& p) {
  using W = Computed<T>;
  const std::int64_t n = p.hidden;
  const SizeDivider per_row(n);
  const auto *gates = static_cast<const T*>(p.gates), *fresh = static_cast<const T*>(p.fresh);
  const auto *recalled = static_cast<const T*>(p.recalled), *before = static_cast<const T*>(p.before);
  const auto* output_grad = static_cast<const T*>(p.output_grad);
  auto* state_grad = static_cast<T*>(p.state_grad);
  auto *of_input = static_cast<T*>(p.input_sums_grad), *of_hidden = static_cast<T*>(p.hidden_sums_grad);
  for_each(p.batch * n, [=] CORE_BODY(std::int64_t i) {
    const auto at = per_row.divide(i);
    const std::int64_t sums = at.quotient * 3 * n + at.remainder, gate = at.quotient * 2 * n + at.remainder;
    const W d = widen(state_grad[i]) + value_or(output_grad, i, 0);
    const W reset = widen(gates[gate]), update = widen(gates[gate + n]), made = widen(fresh[i]);
    const W of_fresh = d * (1 - update) * (1 - made * made);
    const W of_reset = of_fresh * widen(recalled[i]) * reset * (1 - reset);
    const W of_update = d * (widen(before[i]) - made) * update * (1 - update);
    of_input[sums] = of_hidden[sums] = narrow<T>(of_reset);
    of_input[sums + n] = of_hidden[sums + n] = narrow<T>(of_update);
    of_input[sums + 2 * n] = narrow<T>(of_fresh);
    of_hidden[sums + 2 * n] = narrow<T>(of_fresh * reset);
    state_grad[i] = narrow<T>(d * update);
  });
}

template <class T>
void rnn_cell(const RnnCellParams& p) {
  using W = Computed<T>;
  const auto *x = static_cast<const T*>(p.input_sums), *s = static_cast<const T*>(p.hidden_sums);
  auto* after = static_cast<T*>(p.after);
  const bool relu = p.relu;
  for_each(p.count, [=] CORE_BODY(std::int64_t i) {
    const W sum = widen(x[i]) + widen(s[i]);
    after[i] = narrow<T>(relu ? (sum < 0 ? W(0) : sum) : std::tanh(sum));
  });
}

template <class T>
void rnn_cell_grad(const RnnCellGradParams& p) {
  using W = Computed<T>;
  const auto *after = static_cast<const T*>(p.after), *state_grad = static_cast<const T*>(p.state_grad);
  const auto* output_grad = static_cast<const T*>(p.output_grad);
  auto* sums_grad = static_cast<T*>(p.sums_grad);
  const bool relu = p.relu;
  for_each(p.count, [=] CORE_BODY(std::int64_t i) {
    const W d = widen(state_grad[i]) + value_or(output_grad, i, 0), h = widen(after[i]);
    sums_grad[i] = narrow<T>(relu ? (h <= 0 ? W(0) : d) : d * (1 - h * h));
  });
}

}  // namespace

void fill_recurrent_cells(RecurrentTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.gru_cell[slot] = gru_cell<T>;
    table.gru_cell_grad[slot] = gru_cell_grad<T>;
    table.rnn_cell[slot] = rnn_cell<T>;
    table.rnn_cell_grad[slot] = rnn_cell_grad<T>;
  });
}

}  // namespace core::CORE_KERNELS

#pragma once
// One step and one layer of recurrent networks: what the modules RNN, LSTM, GRU and their cells are made of. Formulas
// and gate orders are PyTorch's (LSTM: input, forget, cell, output; GRU: reset, update, new).
// Thread safety: pure functions. Use: h = core::gru_cell(x, h, weights);

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "libcore/backend/recurrent_table.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// w_ih: (gates * hidden, in), w_hh: (gates * hidden, hidden or projection); biases (gates * hidden) or undefined;
/// w_hr: (projection, hidden) or undefined.
struct RecurrentWeights {
  Tensor w_ih, w_hh;
  Tensor b_ih = {}, b_hh = {};
  Tensor w_hr = {};
};

/// Hidden state, and the cell state of an LSTM (undefined otherwise). (batch, hidden) each.
struct RecurrentState {
  Tensor h;
  Tensor c = {};
};

/// One step. x: (batch, in).
Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w);
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w);
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w);
RecurrentState lstm_cell(const Tensor& x, const RecurrentState& state, const RecurrentWeights& w);

struct RecurrentLayer {
  Tensor output;  ///< (time, batch, hidden)
  RecurrentState last;
};
/// One direction of one layer. x: (time, batch, in); in reverse it starts at the end.
RecurrentLayer recurrent_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                               const RecurrentWeights& w, bool reverse);
/// The same over packed rows (all elements, in), of which each step has as many as batch_sizes says (never growing);
/// the output is packed alike.
RecurrentLayer packed_recurrent_layer(RecurrentKind kind, const Tensor& rows, std::span<const std::int64_t> batch_sizes,
                                      const RecurrentState& start, const RecurrentWeights& w, bool reverse);

}  // namespace core

#pragma once
// The recurrent family of kernels: one direction of an LSTM layer over all its time steps in one call, and what a step
// of a GRU or a plain layer does between its products. Arrays are dense and row-major; the caller has checked sizes,
// dtypes and devices and allocated the outputs. The products of the input with its weights are the caller's: they have
// no order in time.
// Thread safety: parameters are plain values, the table is constant after start-up.
// Use: backend.ops().recurrent->lstm[dtype](core::LstmParams{...});

#include <array>
#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// Steps, rows of a step, width of the state. `reverse`: from the last step to the first.
struct RecurrentSizes {
  std::int64_t steps, batch, hidden;
  bool reverse;
};

/// Gates stand in PyTorch's order: input, forget, cell, output.
struct LstmParams {
  RecurrentSizes sizes;
  const void* w_hh;  ///< (4 * hidden, hidden)
  const void* h0;    ///< (batch, hidden), as c0
  const void* c0;
  void* gates;   ///< (steps, batch, 4 * hidden): sums from the input and both biases; on return the activated gates
  void* cells;   ///< (steps, batch, hidden), as the next two: c of every step
  void* tanhs;   ///< tanh(c)
  void* hidden;  ///< h
};

struct LstmGradParams {
  RecurrentSizes sizes;
  const void* w_hh;
  const void* c0;
  const void* gates;  ///< as LstmParams left them, as the next two
  const void* cells;
  const void* tanhs;
  const void* output_grad;  ///< (steps, batch, hidden), or null
  void* sums_grad;          ///< (steps, batch, 4 * hidden): the gradient of the gates' sums
  void* h_grad;             ///< (batch, hidden): of the last h; on return of the first
  void* c_grad;             ///< the same of c
};

/// One step of a GRU: reset and update gate, the fresh state, and their mixture. Sums in PyTorch's order: reset,
/// update, fresh.
struct GruCellParams {
  std::int64_t batch, hidden;
  const void* input_sums;   ///< (batch, 3 * hidden): of the input, with its bias
  const void* hidden_sums;  ///< the same of the state before
  const void* before;       ///< (batch, hidden), as the last three
  void* gates;              ///< (batch, 2 * hidden): the activated reset and update gate
  void* fresh;              ///< tanh of the fresh state's sum
  void* recalled;           ///< hidden_sums' third part, which the reset gate multiplies
  void* after;              ///< the new state
};

/// Its gradient. `state_grad`: of the new state, without what `output_grad` adds; on return what goes to the state
/// before without the products.
struct GruCellGradParams {
  std::int64_t batch, hidden;
  const void* gates;  ///< as GruCellParams left them, as the next two
  const void* fresh;
  const void* recalled;
  const void* before;
  const void* output_grad;  ///< (batch, hidden), or null
  void* state_grad;
  void* input_sums_grad;  ///< (batch, 3 * hidden), as the next
  void* hidden_sums_grad;
};

/// after = activation(input_sums + hidden_sums), (batch, hidden) each, of `count` elements.
struct RnnCellParams {
  std::int64_t count;
  bool relu;  ///< else tanh
  const void* input_sums;
  const void* hidden_sums;
  void* after;
};

/// sums_grad = (state_grad + output_grad) * the activation's slope where it was `after`.
struct RnnCellGradParams {
  std::int64_t count;
  bool relu;
  const void* after;
  const void* output_grad;  ///< or null
  const void* state_grad;
  void* sums_grad;
};

/// By dtype of the data. The cells are those of devices whose memory the host cannot touch.
struct RecurrentTable {
  std::array<void (*)(const LstmParams&), kDTypeCount> lstm{};
  std::array<void (*)(const LstmGradParams&), kDTypeCount> lstm_grad{};
  std::array<void (*)(const GruCellParams&), kDTypeCount> gru_cell{};
  std::array<void (*)(const GruCellGradParams&), kDTypeCount> gru_cell_grad{};
  std::array<void (*)(const RnnCellParams&), kDTypeCount> rnn_cell{};
  std::array<void (*)(const RnnCellGradParams&), kDTypeCount> rnn_cell_grad{};
};

}  // namespace core

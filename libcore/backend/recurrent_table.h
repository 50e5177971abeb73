#pragma once
// The recurrent family of kernels: one direction of an LSTM or GRU layer over all its time steps in one call, what a
// step of a GRU or a plain layer does between its products, and whole layers as a library computes them. Arrays are
// dense and row-major; the caller has checked sizes, dtypes and devices and allocated the outputs. The products of the
// input with its weights are the caller's where nothing else is said: they have no order in time. Thread safety:
// parameters are plain values, the table is constant after start-up. Use: core::LstmParams params{.sizes = {.steps = 7,
// .batch = 2, .hidden = 16, .reverse = false}};

#include <array>
#include <cstddef>
#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

enum class RecurrentKind { tanh, relu, lstm, gru };

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

/// One direction of a GRU layer over all its steps. Sums in PyTorch's order: reset, update, fresh. Of the trace,
/// (steps, batch, width) each, `gates` has reset and update gate, activated; width 2 * hidden.
struct GruParams {
  RecurrentSizes sizes;
  const void* w_hh;        ///< (3 * hidden, hidden)
  const void* b_hh;        ///< (3 * hidden), or null
  const void* h0;          ///< (batch, hidden)
  const void* input_sums;  ///< (steps, batch, 3 * hidden): of the input, with its bias
  void* gates;
  void* fresh;     ///< tanh of the fresh state's sum; width hidden, as the next two
  void* recalled;  ///< what the reset gate multiplies: the third part of the sums of the state before
  void* hidden;    ///< h
};

struct GruGradParams {
  RecurrentSizes sizes;
  const void* w_hh;
  const void* h0;
  const void* gates;  ///< as GruParams left them, as the next three
  const void* fresh;
  const void* recalled;
  const void* hidden;
  const void* output_grad;  ///< (steps, batch, hidden), or null
  void* input_sums_grad;    ///< (steps, batch, 3 * hidden), as the next
  void* hidden_sums_grad;
  void* h_grad;  ///< (batch, hidden): of the last h; on return of the first
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

/// One direction of a layer with everything that belongs to it, from the first step to the last.
struct WholeLayer {
  RecurrentKind kind;
  DType dtype;
  std::int64_t steps, batch, input, hidden;
  bool bias;      ///< both of them
  bool training;  ///< its gradient will be asked for
};

/// How it is done: bytes that the caller gives each call, and what they are for.
struct WholeLayerPlan {
  const void* how;      ///< whose it is; lives as long as the process
  std::size_t weights;  ///< for all of them in the library's order
  std::size_t work;
  std::size_t reserve;  ///< what forward leaves for the gradient, which changes it; none unless training
};

/// Weights and biases as in core::RecurrentWeights; biases null where there are none, c0 and c but for an LSTM.
struct WholeLayerParams {
  WholeLayerPlan plan;
  const void *w_ih, *w_hh, *b_ih, *b_hh;
  const void* x;         ///< (steps, batch, input)
  const void *h0, *c0;   ///< (batch, hidden)
  void* y;               ///< (steps, batch, hidden)
  void *h, *c;           ///< (batch, hidden): of the last step
  void *weights, *work;  ///< of the plan's bytes, as the next
  void* reserve;
  bool is_done = false;  ///< on return: false when the library refused, and the outputs say nothing
};

struct WholeLayerGradParams {
  WholeLayerPlan plan;
  const void *w_ih, *w_hh, *b_ih, *b_hh;
  const void *x, *h0, *c0, *y;
  const void* y_grad;
  const void *h_grad, *c_grad;  ///< of the last step, or null
  void *x_grad, *h0_grad, *c0_grad;
  void *w_ih_grad, *w_hh_grad;  ///< null when nobody wants the gradient of a weight or bias, as the next
  void *b_ih_grad, *b_hh_grad;
  void *weights, *weights_grad;  ///< each of the plan's bytes for weights
  void *work, *reserve;
  bool is_done = false;
};

/// By dtype of the data. The cells are those of devices whose memory the host cannot touch.
struct RecurrentTable {
  std::array<void (*)(const LstmParams&), kDTypeCount> lstm{};
  std::array<void (*)(const LstmGradParams&), kDTypeCount> lstm_grad{};
  /// The host's.
  std::array<void (*)(const GruParams&), kDTypeCount> gru{};
  std::array<void (*)(const GruGradParams&), kDTypeCount> gru_grad{};
  std::array<void (*)(const GruCellParams&), kDTypeCount> gru_cell{};
  std::array<void (*)(const GruCellGradParams&), kDTypeCount> gru_cell_grad{};
  std::array<void (*)(const RnnCellParams&), kDTypeCount> rnn_cell{};
  std::array<void (*)(const RnnCellGradParams&), kDTypeCount> rnn_cell_grad{};

  /// Whether `lstm` takes a layer of so many units through all its steps in one launch.
  std::array<bool (*)(std::int64_t hidden), kDTypeCount> is_lstm_one_launch{};
  /// False where there is no library, or it cannot do the layer. Asked before each call; the answers are kept.
  std::array<bool (*)(const WholeLayer& layer, WholeLayerPlan& plan), kDTypeCount> plan_whole_layer{};
  std::array<void (*)(WholeLayerParams&), kDTypeCount> whole_layer{};
  std::array<void (*)(WholeLayerGradParams&), kDTypeCount> whole_layer_grad{};
};

}  // namespace core

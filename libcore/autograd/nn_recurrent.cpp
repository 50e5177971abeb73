// Recurrent layers, step by step. The product with the input is taken for all steps at once.
#include <algorithm>
#include <vector>

#include "libcore/autograd/composed.h"
#include "libcore/tensor/recurrent_ops.h"

namespace core {
namespace {

Tensor rnn_step(RecurrentKind kind, const Tensor& from_input, const Tensor& h, const RecurrentWeights& w) {
  const Tensor sums = from_input + linear(h, w.w_hh, w.b_hh);
  return kind == RecurrentKind::relu ? relu(sums) : tanh(sums);
}

Tensor gru_step(const Tensor& from_input, const Tensor& h, const RecurrentWeights& w) {
  const std::vector<Tensor> x = from_input.chunk(3, -1), s = linear(h, w.w_hh, w.b_hh).chunk(3, -1);
  const Tensor reset = sigmoid(x[0] + s[0]), update = sigmoid(x[1] + s[1]);
  const Tensor fresh = tanh(x[2] + s[2] * reset);
  return (h - fresh) * update + fresh;
}

RecurrentState lstm_step(const Tensor& from_input, const RecurrentState& state, const RecurrentWeights& w) {
  const std::vector<Tensor> gates = (from_input + linear(state.h, w.w_hh, w.b_hh)).chunk(4, -1);
  RecurrentState next;
  next.c = sigmoid(gates[1]) * state.c + sigmoid(gates[0]) * tanh(gates[2]);
  next.h = sigmoid(gates[3]) * tanh(next.c);
  if (w.w_hr.defined()) next.h = linear(next.h, w.w_hr);
  return next;
}

RecurrentState step(RecurrentKind kind, const Tensor& from_input, const RecurrentState& state,
                    const RecurrentWeights& w) {
  if (kind == RecurrentKind::lstm) return lstm_step(from_input, state, w);
  if (kind == RecurrentKind::gru) return {gru_step(from_input, state.h, w)};
  return {rnn_step(kind, from_input, state.h, w)};
}

RecurrentLayer run(RecurrentKind kind, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                   bool reverse) {
  std::vector<Tensor> inputs = linear(x, w.w_ih, w.b_ih).unbind(0), outputs;
  if (reverse) std::reverse(inputs.begin(), inputs.end());
  RecurrentState state = start;
  for (const Tensor& input : inputs) {
    state = step(kind, input, state, w);
    outputs.push_back(state.h);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return {stack(outputs), state};
}

/// PyTorch has one kernel for a layer of a single-precision LSTM without projection, and one node.
RecurrentLayer fused_lstm(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w, bool reverse) {
  const TensorList all = composed_many("MkldnnRnnLayerBackward0", {x, start.h, start.c, w.w_ih, w.w_hh, w.b_ih, w.b_hh},
                                       [reverse](const TensorList& in) {
                                         const RecurrentLayer layer = run(RecurrentKind::lstm, in[0], {in[1], in[2]},
                                                                          {in[3], in[4], in[5], in[6]}, reverse);
                                         return TensorList{layer.output, layer.last.h, layer.last.c};
                                       });
  return {all[0], {all[1], all[2]}};
}

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return rnn_step(RecurrentKind::tanh, linear(x, w.w_ih, w.b_ih), h, w);
}

Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return rnn_step(RecurrentKind::relu, linear(x, w.w_ih, w.b_ih), h, w);
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return gru_step(linear(x, w.w_ih, w.b_ih), h, w);
}

RecurrentState lstm_cell(const Tensor& x, const RecurrentState& state, const RecurrentWeights& w) {
  return lstm_step(linear(x, w.w_ih, w.b_ih), state, w);
}

RecurrentLayer recurrent_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                               const RecurrentWeights& w, bool reverse) {
  const bool one_node = kind == RecurrentKind::lstm && x.dtype() == DType::f32 && !w.w_hr.defined();
  return one_node ? fused_lstm(x, start, w, reverse) : run(kind, x, start, w, reverse);
}

}  // namespace core

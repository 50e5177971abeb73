// Recurrent layers, step by step. The product with the input is taken for all steps at once.
#include "libcore/ops/recurrent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/recurrent_table.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// The weights of a step. widened: those that a state is multiplied with are f32 for states of f16 (for_steps).
struct StepWeights : RecurrentWeights {
  bool widened = false;
};

/// What a step gets from a state, in the state's type.
Tensor from_state(const StepWeights& w, const Tensor& h, const Tensor& weight, const Tensor& bias = {}) {
  if (!w.widened) return linear(h, weight, bias);
  return linear(h.to(DType::f32), weight, bias).to(h.dtype());
}

Tensor rnn_step(RecurrentKind kind, const Tensor& from_input, const Tensor& h, const StepWeights& w) {
  const Tensor sums = from_input + from_state(w, h, w.w_hh, w.b_hh);
  return kind == RecurrentKind::relu ? relu(sums) : tanh(sums);
}

Tensor gru_step(const Tensor& from_input, const Tensor& h, const StepWeights& w) {
  const std::vector<Tensor> x = from_input.chunk(3, -1), s = from_state(w, h, w.w_hh, w.b_hh).chunk(3, -1);
  const Tensor reset = sigmoid(x[0] + s[0]), update = sigmoid(x[1] + s[1]);
  const Tensor fresh = tanh(x[2] + s[2] * reset);
  return (h - fresh) * update + fresh;
}

RecurrentState lstm_step(const Tensor& from_input, const RecurrentState& state, const StepWeights& w) {
  const std::vector<Tensor> gates = (from_input + from_state(w, state.h, w.w_hh, w.b_hh)).chunk(4, -1);
  RecurrentState next;
  next.c = sigmoid(gates[1]) * state.c + sigmoid(gates[0]) * tanh(gates[2]);
  next.h = sigmoid(gates[3]) * tanh(next.c);
  if (w.w_hr.defined()) next.h = from_state(w, next.h, w.w_hr);
  return next;
}

RecurrentState step(RecurrentKind kind, const Tensor& from_input, const RecurrentState& state, const StepWeights& w) {
  if (kind == RecurrentKind::lstm) return lstm_step(from_input, state, w);
  if (kind == RecurrentKind::gru) return {gru_step(from_input, state.h, w)};
  return {rnn_step(kind, from_input, state.h, w)};
}

/// The weights that each step takes: those of f16, which the host multiplies as f32, widened once for all steps. Sums
/// are rounded as before; gradients are added up over the steps in f32 and rounded once. Few rows without a gradient
/// take the weights as they are, which are read at each step and are half as many bytes so.
StepWeights for_steps(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  constexpr std::int64_t kFewRows = 11, kManyWeights = 1 << 16;
  const auto is_f16 = [](const Tensor* t) { return !t->defined() || t->dtype() == DType::f16; };
  const auto inputs = {&x, &h, &w.w_hh, &w.b_hh, &w.w_hr};  // where one is not, the step says so
  const bool all_f16 = std::all_of(inputs.begin(), inputs.end(), is_f16);
  if (!all_f16 || !x.device().is_cpu() || x.size(0) < 2 || is_autocast_enabled("cpu")) return {w};
  const bool keeps_history = is_grad_enabled() && (w.w_hh.requires_grad() || x.requires_grad());
  if (!keeps_history && x.size(1) <= kFewRows && w.w_hh.numel() >= kManyWeights) return {w};
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::f32) : t; };
  return {{w.w_ih, wide(w.w_hh), w.b_ih, wide(w.b_hh), wide(w.w_hr)}, true};
}

RecurrentLayer run(RecurrentKind kind, const Tensor& x, const RecurrentState& start, const RecurrentWeights& weights,
                   bool reverse) {
  const StepWeights w = for_steps(x, start.h, weights);
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

/// Whether a device has what a kind of layer is made of.
bool has_kernels(const RecurrentTable& table, RecurrentKind kind, std::size_t slot, bool on_host) {
  if (kind == RecurrentKind::lstm) return table.lstm[slot] != nullptr && table.lstm_grad[slot] != nullptr;
  if (kind == RecurrentKind::gru && on_host) return table.gru[slot] != nullptr && table.gru_grad[slot] != nullptr;
  if (kind == RecurrentKind::gru) return table.gru_cell[slot] != nullptr && table.gru_cell_grad[slot] != nullptr;
  return table.rnn_cell[slot] != nullptr && table.rnn_cell_grad[slot] != nullptr;
}

bool runs_by_hand(RecurrentKind kind, const Tensor& x, const RecurrentWeights& w) {
  if (w.w_hr.defined() || x.numel() == 0 || x.is_meta()) return false;
  Backend& backend = backend_for(x.device());
  const bool on_host = backend.is_host_memory();
  if (on_host && x.dtype() != DType::f32 && x.dtype() != DType::f64) return false;
  const RecurrentTable* table = backend.ops().recurrent;
  return table != nullptr && has_kernels(*table, kind, static_cast<std::size_t>(x.dtype()), on_host);
}

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return rnn_step(RecurrentKind::tanh, linear(x, w.w_ih, w.b_ih), h, {w});
}

Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return rnn_step(RecurrentKind::relu, linear(x, w.w_ih, w.b_ih), h, {w});
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& w) {
  return gru_step(linear(x, w.w_ih, w.b_ih), h, {w});
}

RecurrentState lstm_cell(const Tensor& x, const RecurrentState& state, const RecurrentWeights& w) {
  return lstm_step(linear(x, w.w_ih, w.b_ih), state, {w});
}

namespace detail {

RecurrentLayer stepwise_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                              const RecurrentWeights& w, bool reverse) {
  return run(kind, x, start, w, reverse);
}

const RecurrentTable& recurrent_table_of(const Tensor& x) {
  return *raw::backend_of(x).ops().recurrent;
}

Tensor dense_values(const Tensor& x) {
  return raw::contiguous(x.detach());
}
Tensor dense_or_none(const Tensor& x) {
  return x.defined() ? dense_values(x) : Tensor();
}

Tensor sums_of(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  raw::ProductOptions with_bias;
  if (bias.defined()) with_bias = {.beta = 1, .start = bias.detach()};
  return raw::product(rows, weight.detach().t(), with_bias);
}

Tensor hidden_before(const LayerSizes& s, const Tensor& hidden, const Tensor& h0, bool reverse) {
  const Tensor first = h0.unsqueeze(0);
  if (s.steps == 1) return first;
  if (reverse) return cat({hidden.narrow(0, 1, s.steps - 1), first});
  return cat({first, hidden.narrow(0, 0, s.steps - 1)});
}

TensorList gradients_by_steps(RecurrentKind kind, const TensorList& inputs, const std::vector<bool>& wanted,
                              const TensorList& grads, bool reverse) {
  const auto function = [kind, reverse](const TensorList& in) {
    const RecurrentLayer layer = run(kind, in[0], {in[1], in[2]}, {in[3], in[4], in[5], in[6]}, reverse);
    TensorList results{layer.output, layer.last.h};
    if (layer.last.c.defined()) results.push_back(layer.last.c);
    return results;
  };
  return differentiated(function, inputs, wanted, grads);
}

TensorList LayerBackward::apply(TensorList grads) {
  TensorList inputs;
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < 7; ++i) {
    inputs.push_back(saved(i));
    wanted.push_back(wants(i));
  }
  if (is_grad_enabled()) return gradients_by_steps(kind, inputs, wanted, grads, reverse);
  return by_hand(inputs, grads);
}

void record_layer(const IntrusivePtr<LayerBackward>& node, const LayerInputs& in, RecurrentLayer& out,
                  std::initializer_list<const Tensor*> kept) {
  const auto& [x, start, w] = in;
  for (const Tensor* input : {&x, &start.h, &start.c, &w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh}) {
    node->add_edge(*input);
    node->save(*input);
  }
  for (const Tensor* tensor : kept) node->save(*tensor);
  record(out.output, node);
  record(out.last.h, node);
  if (out.last.c.defined()) record(out.last.c, node);
}

}  // namespace detail

namespace {

/// States in f32, results rounded, as PyTorch's kernel for bf16 has it.
RecurrentLayer lstm_in_f32(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w, bool reverse) {
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::f32) : t; };
  RecurrentLayer layer = recurrent_layer(RecurrentKind::lstm, wide(x), {wide(start.h), wide(start.c)},
                                         {wide(w.w_ih), wide(w.w_hh), wide(w.b_ih), wide(w.b_hh)}, reverse);
  return {layer.output.to(x.dtype()), {layer.last.h.to(x.dtype()), layer.last.c.to(x.dtype())}};
}

const char* layer_name(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::tanh:
      return "rnn_tanh";
    case RecurrentKind::relu:
      return "rnn_relu";
    case RecurrentKind::lstm:
      return "lstm";
    default:
      return "gru";
  }
}

}  // namespace

RecurrentLayer recurrent_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                               const RecurrentWeights& w, bool reverse) {
  if (core::detail::traced_now()) {
    core::detail::TraceFrame frame(layer_name(kind), {x, start.h, start.c, w.w_ih, w.w_hh, w.b_ih, w.b_hh, w.w_hr},
                                   {{"reverse", reverse}});
    RecurrentLayer layer = recurrent_layer(kind, x, start, w, reverse);
    frame.end({layer.output, layer.last.h, layer.last.c});
    return layer;
  }
  const core::detail::OpScope scope(layer_name(kind), x);
  const std::initializer_list<const Tensor*> inputs{&x,      &start.h, &start.c, &w.w_ih,
                                                    &w.w_hh, &w.b_ih,  &w.b_hh,  &w.w_hr};
  const auto cast_first = [&](const Casts& to) {
    return recurrent_layer(kind, to(x), {to(start.h), to(start.c)},
                           {to(w.w_ih), to(w.w_hh), to(w.b_ih), to(w.b_hh), to(w.w_hr)}, reverse);
  };
  const bool is_gru = kind == RecurrentKind::gru;
  if (const Casts to(CastRule::lower, is_gru ? CastOn::cuda : CastOn::any, inputs); to) return cast_first(to);
  // PyTorch's has products in the lower type and a result in f32; here all of it is in f32.
  if (const Casts to(CastRule::f32, CastOn::cpu, inputs); to) return cast_first(to);
  const bool has_f32_layer = kind == RecurrentKind::lstm && !w.w_hr.defined() && x.device().is_cpu();
  if (x.dtype() == DType::bf16 && has_f32_layer) {
    if (detail::has_bf16_lstm(x, start, w)) return detail::bf16_lstm_layer(x, start, w, reverse);
    return lstm_in_f32(x, start, w, reverse);
  }
  if (!runs_by_hand(kind, x, w)) return run(kind, x, start, w, reverse);
  if (!backend_for(x.device()).is_host_memory()) {
    if (auto layer = detail::whole_layer(kind, x, start, w, reverse)) return *std::move(layer);
  }
  if (kind == RecurrentKind::gru) return detail::gru_layer("StackBackward0", x, start, w, reverse);
  // PyTorch has one kernel for single precision alone; what the others print is the stack of their steps.
  const char* printed = x.dtype() == DType::f32 ? "MkldnnRnnLayerBackward0" : "StackBackward0";
  if (kind == RecurrentKind::lstm) return detail::lstm_layer(printed, x, start, w, reverse);
  return detail::rnn_layer(kind, x, start, w, reverse);
}

}  // namespace core

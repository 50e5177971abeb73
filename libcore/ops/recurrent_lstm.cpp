// The LSTM layer by hand. Products with the whole sequence are taken at once before and behind the steps, which are one
// kernel.
#include "libcore/ops/recurrent.h"

#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/bf16_lstm_params.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/recurrent_table.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

/// What forward leaves for backward, each (time, batch, width) dense in the order of time.
struct Trace {
  Tensor gates;   ///< input, forget, cell, output after their activations; (time, batch, 4 * hidden)
  Tensor cells;   ///< c of every step
  Tensor tanhs;   ///< tanh(c)
  Tensor hidden;  ///< h of every step
};

Tensor part(const Tensor& x, std::int64_t step) {
  return x.select(0, step);
}

/// The gates' sums from the input alone: (time, batch, 4 * hidden).
Tensor input_sums(const LayerSizes& s, const Tensor& x, const RecurrentWeights& w) {
  raw::ProductOptions bias;
  if (w.b_ih.defined()) bias = {.beta = 1, .start = w.b_ih.detach() + w.b_hh.detach()};
  const Tensor flat = dense_values(x).reshape({s.rows(), x.size(2)});
  return raw::product(flat, dense_values(w.w_ih).t(), bias).reshape({s.steps, s.batch, 4 * s.hidden});
}

Trace run_forward(const LayerSizes& s, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                  bool reverse) {
  Trace t;
  t.gates = input_sums(s, x, w);
  t.cells = empty({s.steps, s.batch, s.hidden}, {.dtype = x.dtype(), .device = x.device()});
  t.tanhs = empty_like(t.cells);
  t.hidden = empty_like(t.cells);
  const Tensor w_hh = dense_values(w.w_hh), h = dense_values(start.h), c = dense_values(start.c);
  recurrent_table_of(x).lstm[slot_of(x)]({{s.steps, s.batch, s.hidden, reverse},
                                          w_hh.raw_data(),
                                          h.raw_data(),
                                          c.raw_data(),
                                          t.gates.mutable_raw_data(),
                                          t.cells.mutable_raw_data(),
                                          t.tanhs.mutable_raw_data(),
                                          t.hidden.mutable_raw_data()});
  return t;
}

struct LayerGrads {
  Tensor gates, h, c;  ///< of the gates' sums (time, batch, 4 * hidden), and of the first states
};

LayerGrads run_backward(const LayerSizes& s, const Trace& t, const Tensor& c0, const Tensor& w_hh,
                        const TensorList& grads, bool reverse) {
  const TensorOptions made{.dtype = t.cells.dtype(), .device = t.cells.device()};
  const auto state_grad = [&](const Tensor& given) {
    return given.defined() ? raw::clone(raw::contiguous(given)) : zeros({s.batch, s.hidden}, made);
  };
  LayerGrads out{empty_like(t.gates), state_grad(grads[1]), state_grad(grads[2])};
  const Tensor first_cell = raw::contiguous(c0);
  const Tensor of_output = grads[0].defined() ? raw::contiguous(grads[0]) : Tensor();
  recurrent_table_of(t.cells).lstm_grad[slot_of(t.cells)]({{s.steps, s.batch, s.hidden, reverse},
                                                           w_hh.raw_data(),
                                                           first_cell.raw_data(),
                                                           t.gates.raw_data(),
                                                           t.cells.raw_data(),
                                                           t.tanhs.raw_data(),
                                                           of_output.defined() ? of_output.raw_data() : nullptr,
                                                           out.gates.mutable_raw_data(),
                                                           out.h.mutable_raw_data(),
                                                           out.c.mutable_raw_data()});
  return out;
}

/// Kept: the trace.
struct LstmLayerBackward final : LayerBackward {
  using LayerBackward::LayerBackward;

 private:
  TensorList by_hand(const TensorList& in, const TensorList& grads) const override {
    const Trace trace{saved(7), saved(8), saved(9), saved(10)};
    const Tensor w_hh = dense_values(in[4]);
    const LayerGrads g = run_backward(sizes, trace, in[2].detach(), w_hh, grads, reverse);
    const std::int64_t rows = sizes.rows();
    const Tensor flat = g.gates.reshape({rows, 4 * sizes.hidden});
    TensorList result(7);
    if (wants(0)) result[0] = raw::product(flat, in[3].detach()).reshape(in[0].sizes());
    if (wants(1)) result[1] = g.h;
    if (wants(2)) result[2] = g.c;
    if (wants(3)) result[3] = raw::product(flat.t(), dense_values(in[0]).reshape({rows, in[0].size(2)}));
    if (wants(4)) {
      const Tensor before = hidden_before(sizes, trace.hidden, in[1].detach(), reverse);
      result[4] = raw::product(flat.t(), before.reshape({rows, sizes.hidden}));
    }
    if (wants(5) || wants(6)) result[5] = result[6] = raw::column_sums(flat);
    return result;
  }
};

/// The results of a layer that left `trace`, with its node where someone wants gradients.
RecurrentLayer traced_layer(const char* printed, const LayerSizes& sizes, const Trace& trace, const LayerInputs& in,
                            bool reverse) {
  const std::int64_t last = reverse ? 0 : sizes.steps - 1;
  RecurrentLayer out{trace.hidden.detach(), {}};
  {
    const NoGradGuard no_history;
    out.last = {part(trace.hidden, last).clone(), part(trace.cells, last).clone()};
  }
  if (!in.need_grad()) return out;
  record_layer(make_intrusive<LstmLayerBackward>(RecurrentKind::lstm, printed, sizes, reverse), in, out,
               {&trace.gates, &trace.cells, &trace.tanhs, &trace.hidden});
  return out;
}

const void* data_or_none(const Tensor& x) {
  return x.defined() ? x.raw_data() : nullptr;
}

/// The layer by the kernel of bf16; `trace`: null, or f32 tensors for what the gradient needs.
RecurrentLayer run_bf16(const LayerSizes& s, const LayerInputs& in, const Trace* trace, bool reverse) {
  const TensorOptions made{.dtype = DType::bf16, .device = in.x.device()};
  const Tensor x = dense_values(in.x), h0 = dense_values(in.start.h), c0 = dense_values(in.start.c);
  const Tensor w_ih = dense_values(in.w.w_ih), w_hh = dense_values(in.w.w_hh);
  const Tensor b_ih = dense_or_none(in.w.b_ih), b_hh = dense_or_none(in.w.b_hh);
  const Tensor y = empty({s.steps, s.batch, s.hidden}, made);
  const Tensor c = empty({s.batch, s.hidden}, {.dtype = DType::f32, .device = in.x.device()});
  const auto numbers = [&](Tensor Trace::*of) { return trace == nullptr ? nullptr : at<float>(trace->*of, 0); };
  const LstmParams kept{{s.steps, s.batch, s.hidden, reverse},
                        w_hh.raw_data(),
                        h0.raw_data(),
                        c0.raw_data(),
                        numbers(&Trace::gates),
                        numbers(&Trace::cells),
                        numbers(&Trace::tanhs),
                        numbers(&Trace::hidden)};
  recurrent_table_of(in.x).lstm[slot_of(in.x)](Bf16LstmParams{kept, x.size(2), x.raw_data(), w_ih.raw_data(),
                                                              data_or_none(b_ih), data_or_none(b_hh),
                                                              y.mutable_raw_data(), at<float>(c, 0)});
  return {y, {part(y, reverse ? 0 : s.steps - 1).clone(), c.to(DType::bf16)}};
}

}  // namespace

RecurrentLayer lstm_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                          bool reverse) {
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  Trace trace;
  {
    const NoGradGuard no_history;
    trace = run_forward(sizes, x, start, w, reverse);
  }
  return traced_layer(printed, sizes, trace, {x, start, w}, reverse);
}

bool has_bf16_lstm(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w) {
  constexpr std::int64_t kFewest = 16;  // units: of fewer, most of a tile would be empty
  if (x.numel() == 0 || w.w_hh.size(1) < kFewest || recurrent_table_of(x).lstm[slot_of(x)] == nullptr) return false;
  for (const Tensor* t : {&x, &start.h, &start.c, &w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh}) {
    if (t->defined() && (t->dtype() != DType::bf16 || !t->device().is_cpu())) return false;
  }
  return true;
}

RecurrentLayer bf16_lstm_layer(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w, bool reverse) {
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  const LayerInputs in{x, start, w};
  if (!in.need_grad()) {
    const NoGradGuard no_history;
    return run_bf16(sizes, in, nullptr, reverse);
  }
  Trace trace;
  const TensorOptions made{.dtype = DType::f32, .device = x.device()};
  trace.gates = empty({sizes.steps, sizes.batch, 4 * sizes.hidden}, made);
  trace.cells = empty({sizes.steps, sizes.batch, sizes.hidden}, made);
  trace.tanhs = empty_like(trace.cells);
  trace.hidden = empty_like(trace.cells);
  {
    const NoGradGuard no_history;
    run_bf16(sizes, in, &trace, reverse);
  }
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::f32) : t; };
  const Tensor wide_x = wide(x);
  const RecurrentState wide_start{wide(start.h), wide(start.c)};
  const RecurrentWeights wide_w{wide(w.w_ih), wide(w.w_hh), wide(w.b_ih), wide(w.b_hh), {}};
  const RecurrentLayer layer =
      traced_layer("MkldnnRnnLayerBackward0", sizes, trace, {wide_x, wide_start, wide_w}, reverse);
  return {layer.output.to(DType::bf16), {layer.last.h.to(DType::bf16), layer.last.c.to(DType::bf16)}};
}

}  // namespace core::detail

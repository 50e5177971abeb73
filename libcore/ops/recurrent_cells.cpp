// GRU and plain recurrent layers on devices whose memory the host cannot touch: each step is a product of matrices and
// one kernel (backend/recurrent_table.h).
#include "libcore/ops/recurrent.h"

#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/recurrent_table.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

TensorOptions made_as(const Tensor& x) {
  return {.dtype = x.dtype(), .device = x.device()};
}

/// Where the steps of a layer stand in its arrays.
struct Order {
  std::int64_t steps;
  bool reverse;
  std::int64_t step(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
};

/// The part of one step, for kernels to read or write.
const void* read(const Tensor& x, std::int64_t step) {
  return x.defined() ? x.select(0, step).raw_data() : nullptr;
}
void* write(const Tensor& x, std::int64_t step) {
  return x.select(0, step).mutable_raw_data();
}

/// The gradient of the last state, for the steps to carry on.
Tensor carried(const Tensor& given, const LayerSizes& s, const Tensor& like) {
  return given.defined() ? raw::clone(raw::contiguous(given)) : zeros({s.batch, s.hidden}, made_as(like));
}
/// Kept: h of every step.
struct RnnLayerBackward final : LayerBackward {
  using LayerBackward::LayerBackward;

 private:
  TensorList by_hand(const TensorList& in, const TensorList& grads) const override {
    const Tensor hidden = saved(7), w_hh = dense_values(in[4]), of_output = dense_or_none(grads[0]);
    Tensor h_grad = carried(grads[1], sizes, hidden);
    const Tensor sums = empty_like(hidden);
    const Order order{sizes.steps, reverse};
    for (std::int64_t i = sizes.steps - 1; i >= 0; --i) {
      const std::int64_t step = order.step(i);
      recurrent_table_of(hidden).rnn_cell_grad[slot_of(hidden)]({sizes.state(), kind == RecurrentKind::relu,
                                                                 read(hidden, step), read(of_output, step),
                                                                 h_grad.raw_data(), write(sums, step)});
      h_grad = raw::product(sums.select(0, step), w_hh);
    }
    return gradients(in, hidden, sums.reshape({sizes.rows(), sizes.hidden}), h_grad);
  }
  TensorList gradients(const TensorList& in, const Tensor& hidden, const Tensor& flat, const Tensor& h_grad) const {
    const std::int64_t rows = sizes.rows();
    TensorList result(7);
    if (wants(0)) result[0] = raw::product(flat, in[3].detach()).reshape(in[0].sizes());
    if (wants(1)) result[1] = h_grad;
    if (wants(3)) result[3] = raw::product(flat.t(), dense_values(in[0]).reshape({rows, in[0].size(2)}));
    if (wants(4)) {
      const Tensor before = hidden_before(sizes, hidden, in[1].detach(), reverse);
      result[4] = raw::product(flat.t(), before.reshape({rows, sizes.hidden}));
    }
    if (wants(5) || wants(6)) result[5] = result[6] = raw::column_sums(flat);
    return result;
  }
};

Tensor run_forward(RecurrentKind kind, const LayerSizes& s, const Tensor& x, const Tensor& h0,
                   const RecurrentWeights& w, bool reverse) {
  const Tensor from_input =
      sums_of(dense_values(x).reshape({s.rows(), x.size(2)}), w.w_ih, w.b_ih).reshape({s.steps, s.batch, s.hidden});
  const Tensor hidden = empty({s.steps, s.batch, s.hidden}, made_as(x));
  const Order order{s.steps, reverse};
  Tensor h = dense_values(h0);
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t step = order.step(i);
    const Tensor from_hidden = sums_of(h, w.w_hh, w.b_hh);
    recurrent_table_of(x).rnn_cell[slot_of(x)](
        {s.state(), kind == RecurrentKind::relu, read(from_input, step), from_hidden.raw_data(), write(hidden, step)});
    h = hidden.select(0, step);
  }
  return hidden;
}

}  // namespace

GruTrace gru_forward_on_device(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w,
                               bool reverse) {
  const Tensor flat = dense_values(x).reshape({s.rows(), x.size(2)});
  const Tensor from_input = sums_of(flat, w.w_ih, w.b_ih).reshape({s.steps, s.batch, 3 * s.hidden});
  const GruTrace t{empty({s.steps, s.batch, 2 * s.hidden}, made_as(x)), empty({s.steps, s.batch, s.hidden}, made_as(x)),
                   empty({s.steps, s.batch, s.hidden}, made_as(x)), empty({s.steps, s.batch, s.hidden}, made_as(x))};
  const Order order{s.steps, reverse};
  Tensor h = dense_values(h0);
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t step = order.step(i);
    const Tensor from_hidden = sums_of(h, w.w_hh, w.b_hh);
    recurrent_table_of(x).gru_cell[slot_of(x)]({s.batch, s.hidden, read(from_input, step), from_hidden.raw_data(),
                                                h.raw_data(), write(t.gates, step), write(t.fresh, step),
                                                write(t.recalled, step), write(t.hidden, step)});
    h = t.hidden.select(0, step);
  }
  return t;
}

GruGrads gru_backward_on_device(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh,
                                const TensorList& grads, bool reverse) {
  GruGrads out{empty({s.steps, s.batch, 3 * s.hidden}, made_as(h0)),
               empty({s.steps, s.batch, 3 * s.hidden}, made_as(h0)), carried(grads[1], s, h0)};
  const Tensor first = dense_values(h0), of_output = dense_or_none(grads[0]);
  const Order order{s.steps, reverse};
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const std::int64_t step = order.step(i);
    const void* before = i == 0 ? first.raw_data() : read(t.hidden, order.step(i - 1));
    recurrent_table_of(h0).gru_cell_grad[slot_of(h0)](
        {s.batch, s.hidden, read(t.gates, step), read(t.fresh, step), read(t.recalled, step), before,
         read(of_output, step), out.h.mutable_raw_data(), write(out.input_sums, step), write(out.hidden_sums, step)});
    out.h = raw::product(out.hidden_sums.select(0, step), w_hh, {.beta = 1, .start = out.h});
  }
  return out;
}

RecurrentLayer rnn_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                         bool reverse) {
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  Tensor hidden;
  RecurrentLayer out;
  {
    const NoGradGuard no_history;
    hidden = run_forward(kind, sizes, x, start.h, w, reverse);
    out = {hidden.detach(), {hidden.select(0, reverse ? 0 : sizes.steps - 1).clone()}};
  }
  const LayerInputs in{x, start, w};
  if (!in.need_grad()) return out;
  record_layer(make_intrusive<RnnLayerBackward>(kind, "StackBackward0", sizes, reverse), in, out, {&hidden});
  return out;
}

}  // namespace core::detail

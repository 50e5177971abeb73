// The GRU layer by hand. Products with the whole sequence are taken at once before and behind the steps, which are one
// kernel.
#include "libcore/ops/recurrent.h"

#include <algorithm>
#include <initializer_list>
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

GruTrace run_forward(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w, bool reverse) {
  const Tensor from_input = sums_of(dense_values(x).reshape({s.rows(), x.size(2)}), w.w_ih, w.b_ih);
  const TensorOptions made{.dtype = x.dtype(), .device = x.device()};
  GruTrace t{empty({s.steps, s.batch, 2 * s.hidden}, made), empty({s.steps, s.batch, s.hidden}, made), {}, {}};
  t.recalled = empty_like(t.fresh);
  t.hidden = empty_like(t.fresh);
  const Tensor w_hh = dense_values(w.w_hh), b_hh = dense_or_none(w.b_hh), h = dense_values(h0);
  recurrent_table_of(x).gru[slot_of(x)]({{s.steps, s.batch, s.hidden, reverse},
                                         w_hh.raw_data(),
                                         b_hh.defined() ? b_hh.raw_data() : nullptr,
                                         h.raw_data(),
                                         from_input.raw_data(),
                                         t.gates.mutable_raw_data(),
                                         t.fresh.mutable_raw_data(),
                                         t.recalled.mutable_raw_data(),
                                         t.hidden.mutable_raw_data()});
  return t;
}

GruGrads run_backward(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh,
                      const TensorList& grads, bool reverse) {
  const TensorOptions made{.dtype = h0.dtype(), .device = h0.device()};
  GruGrads out;
  out.input_sums = empty({s.steps, s.batch, 3 * s.hidden}, made);
  out.hidden_sums = empty_like(out.input_sums);
  out.h = grads[1].defined() ? raw::clone(raw::contiguous(grads[1])) : zeros({s.batch, s.hidden}, made);
  const Tensor first = dense_values(h0), of_output = dense_or_none(grads[0]);
  recurrent_table_of(h0).gru_grad[slot_of(h0)]({{s.steps, s.batch, s.hidden, reverse},
                                                w_hh.raw_data(),
                                                first.raw_data(),
                                                t.gates.raw_data(),
                                                t.fresh.raw_data(),
                                                t.recalled.raw_data(),
                                                t.hidden.raw_data(),
                                                of_output.defined() ? of_output.raw_data() : nullptr,
                                                out.input_sums.mutable_raw_data(),
                                                out.hidden_sums.mutable_raw_data(),
                                                out.h.mutable_raw_data()});
  return out;
}

GruTrace forward(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w, bool reverse) {
  if (!raw::backend_of(x).is_host_memory()) return gru_forward_on_device(s, x, h0, w, reverse);
  return run_forward(s, x, h0, w, reverse);
}

GruGrads backward(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh, const TensorList& grads,
                  bool reverse) {
  if (!raw::backend_of(h0).is_host_memory()) return gru_backward_on_device(s, t, h0, w_hh, grads, reverse);
  return run_backward(s, t, h0, w_hh, grads, reverse);
}

/// Kept: the trace.
struct GruLayerBackward final : LayerBackward {
  using LayerBackward::LayerBackward;

 private:
  TensorList by_hand(const TensorList& in, const TensorList& grads) const override {
    const GruTrace trace{saved(7), saved(8), saved(9), saved(10)};
    const Tensor h0 = in[1].detach(), w_hh = dense_values(in[4]);
    const GruGrads g = backward(sizes, trace, h0, w_hh, grads, reverse);
    const std::int64_t rows = sizes.rows();
    const Tensor of_input = g.input_sums.reshape({rows, 3 * sizes.hidden});
    const Tensor of_hidden = g.hidden_sums.reshape({rows, 3 * sizes.hidden});
    TensorList result(7);
    if (wants(0)) result[0] = raw::product(of_input, in[3].detach()).reshape(in[0].sizes());
    if (wants(1)) result[1] = g.h;
    if (wants(3)) result[3] = raw::product(of_input.t(), dense_values(in[0]).reshape({rows, in[0].size(2)}));
    if (wants(4)) {
      const Tensor before = hidden_before(sizes, trace.hidden, h0, reverse);
      result[4] = raw::product(of_hidden.t(), before.reshape({rows, sizes.hidden}));
    }
    if (wants(5)) result[5] = raw::column_sums(of_input);
    if (wants(6)) result[6] = raw::column_sums(of_hidden);
    return result;
  }
};

/// Of one dtype and device, as the kernel reads them; of others a single step says what is wrong.
bool are_alike(const Tensor& x, std::initializer_list<const Tensor*> others) {
  return std::all_of(others.begin(), others.end(), [&](const Tensor* t) {
    return !t->defined() || (t->dtype() == x.dtype() && t->device() == x.device());
  });
}

}  // namespace

RecurrentLayer gru_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                         bool reverse) {
  if (!are_alike(x, {&start.h, &w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh})) {
    return stepwise_layer(RecurrentKind::gru, x, start, w, reverse);
  }
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  GruTrace trace;
  RecurrentLayer out;
  {
    const NoGradGuard no_history;
    trace = forward(sizes, x, start.h, w, reverse);
    out = {trace.hidden.detach(), {trace.hidden.select(0, reverse ? 0 : sizes.steps - 1).clone()}};
  }
  const LayerInputs in{x, start, w};
  if (!in.need_grad()) return out;
  record_layer(make_intrusive<GruLayerBackward>(RecurrentKind::gru, printed, sizes, reverse), in, out,
               {&trace.gates, &trace.fresh, &trace.recalled, &trace.hidden});
  return out;
}

}  // namespace core::detail

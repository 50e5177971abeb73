// The LSTM layer by hand. Every step is one matrix product, one sigmoid over all four gates (the cell gate's
// pre-activation is doubled, as tanh(z) = 2 sigmoid(2z) - 1) and two short loops; products with the whole sequence are
// taken at once before and behind the steps.

#include <vector>

#include "libcore/autograd/recurrent_by_hand.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/raw_ops.h"

namespace core::detail {
namespace {

/// What forward leaves for backward, each (time, batch, width) dense in the order of time.
struct Trace {
  Tensor gates;   ///< input, forget, cell, output after their activations; (time, batch, 4 * hidden)
  Tensor cells;   ///< c of every step
  Tensor tanhs;   ///< tanh(c)
  Tensor hidden;  ///< h of every step
};

/// c and h of one step from its gates; tanh(c) is taken in between by `tanh_of`.
template <class T>
void cell_update(const LayerSizes& s, T* gates, const T* before, T* cells) {
  for (std::int64_t row = 0; row < s.batch; ++row) {
    T* g = gates + row * 4 * s.hidden;
    const T* c0 = before + row * s.hidden;
    T* c = cells + row * s.hidden;
    for (std::int64_t k = 0; k < s.hidden; ++k) {
      g[2 * s.hidden + k] = 2 * g[2 * s.hidden + k] - 1;
      c[k] = g[s.hidden + k] * c0[k] + g[k] * g[2 * s.hidden + k];
    }
  }
}

template <class T>
void hidden_update(const LayerSizes& s, const T* gates, const T* tanhs, T* hidden) {
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const T* out = gates + row * 4 * s.hidden + 3 * s.hidden;
    for (std::int64_t k = 0; k < s.hidden; ++k) {
      hidden[row * s.hidden + k] = out[k] * tanhs[row * s.hidden + k];
    }
  }
}

/// Doubles the rows (or elements) of the cell gate.
Tensor with_doubled_cell_gate(const Tensor& x, std::int64_t hidden) {
  const Tensor result = raw::clone(dense_values(x));
  result.narrow(0, 2 * hidden, hidden).mul_(2);
  return result;
}

Tensor part(const Tensor& x, std::int64_t step) {
  return x.select(0, step);
}

template <class T>
Trace run_forward(const LayerSizes& s, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                  bool reverse) {
  const Tensor w_hh = with_doubled_cell_gate(w.w_hh, s.hidden).t();
  const Tensor flat = dense_values(x).reshape({s.steps * s.batch, x.size(2)});
  raw::ProductOptions bias;
  if (w.b_ih.defined()) {
    bias.start = with_doubled_cell_gate(w.b_ih.detach() + w.b_hh.detach(), s.hidden);
    bias.beta = 1;
  }
  Trace t;
  t.gates =
      raw::product(flat, with_doubled_cell_gate(w.w_ih, s.hidden).t(), bias).reshape({s.steps, s.batch, 4 * s.hidden});
  t.cells = empty({s.steps, s.batch, s.hidden}, {.dtype = x.dtype(), .device = x.device()});
  t.tanhs = empty_like(t.cells);
  t.hidden = empty_like(t.cells);
  Tensor h = dense_values(start.h), c = dense_values(start.c);
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t step = reverse ? s.steps - 1 - i : i;
    const Tensor gates = part(t.gates, step), cells = part(t.cells, step), tanhs = part(t.tanhs, step);
    const Tensor sums = raw::product(h, w_hh, {.beta = 1, .start = gates});
    raw::unary_into(UnaryOp::sigmoid, gates, sums);
    cell_update<T>(s, at<T>(t.gates, step * 4 * s.state()), c.data<T>(), at<T>(t.cells, step * s.state()));
    raw::unary_into(UnaryOp::tanh, tanhs, cells);
    hidden_update<T>(s, look<T>(t.gates, step * 4 * s.state()), look<T>(t.tanhs, step * s.state()),
                     at<T>(t.hidden, step * s.state()));
    h = part(t.hidden, step);
    c = cells;
  }
  return t;
}

/// Gradients of the gates' sums, and dc carried on; dh and dc: (batch, hidden) of this step.
template <class T>
void gate_grads(const LayerSizes& s, const T* gates, const T* before, const T* tanhs, const T* dh, T* dc, T* out) {
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const T* g = gates + row * 4 * s.hidden;
    T* d = out + row * 4 * s.hidden;
    for (std::int64_t k = 0; k < s.hidden; ++k) {
      const std::int64_t j = row * s.hidden + k;
      const T i = g[k], f = g[s.hidden + k], z = g[2 * s.hidden + k], o = g[3 * s.hidden + k];
      const T th = tanhs[j], cell = dc[j] + dh[j] * o * (1 - th * th);
      d[k] = cell * z * i * (1 - i);
      d[s.hidden + k] = cell * before[j] * f * (1 - f);
      d[2 * s.hidden + k] = cell * i * (1 - z * z);
      d[3 * s.hidden + k] = dh[j] * th * o * (1 - o);
      dc[j] = cell * f;
    }
  }
}

struct LayerGrads {
  Tensor gates, h, c;  ///< of the gates' sums (time, batch, 4 * hidden), and of the first states
};

template <class T>
LayerGrads run_backward(const LayerSizes& s, const Trace& t, const Tensor& c0, const Tensor& w_hh,
                        const TensorList& grads, bool reverse) {
  const TensorOptions made{.dtype = t.cells.dtype(), .device = t.cells.device()};
  const auto state_grad = [&](const Tensor& given) {
    return given.defined() ? raw::clone(raw::contiguous(given)) : zeros({s.batch, s.hidden}, made);
  };
  LayerGrads out{empty_like(t.gates), state_grad(grads[1]), state_grad(grads[2])};
  const Tensor first_cell = raw::contiguous(c0);
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const std::int64_t step = reverse ? s.steps - 1 - i : i, earlier = reverse ? step + 1 : step - 1;
    if (grads[0].defined()) out.h.add_(part(grads[0], step));
    const T* before = i == 0 ? first_cell.data<T>() : look<T>(t.cells, earlier * s.state());
    gate_grads<T>(s, look<T>(t.gates, step * 4 * s.state()), before, look<T>(t.tanhs, step * s.state()),
                  out.h.data<T>(), at<T>(out.c, 0), at<T>(out.gates, step * 4 * s.state()));
    out.h = raw::product(part(out.gates, step), w_hh);
  }
  return out;
}

/// Saved: x, h0, c0, w_ih, w_hh, b_ih, b_hh, then the trace.
struct LstmLayerBackward final : Node {
  const char* printed = "";
  LayerSizes sizes{};
  bool reverse = false;

  std::string_view name() const override { return printed; }
  TensorList apply(TensorList grads) override {
    TensorList inputs;
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < 7; ++i) {
      inputs.push_back(saved(i));
      wanted.push_back(wants(i));
    }
    if (is_grad_enabled()) return gradients_by_steps(RecurrentKind::lstm, inputs, wanted, grads, reverse);
    return by_hand(inputs, grads);
  }

 private:
  TensorList by_hand(const TensorList& in, const TensorList& grads) const {
    const Trace trace{saved(7), saved(8), saved(9), saved(10)};
    const Tensor w_hh = dense_values(in[4]);
    const bool is_double = in[0].dtype() == DType::f64;
    const LayerGrads g = is_double ? run_backward<double>(sizes, trace, in[2].detach(), w_hh, grads, reverse)
                                   : run_backward<float>(sizes, trace, in[2].detach(), w_hh, grads, reverse);
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
    if (wants(5) || wants(6)) result[5] = result[6] = raw::reduce(ReduceOp::sum, flat, {.dims = {0}});
    return result;
  }
};

}  // namespace

RecurrentLayer lstm_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                          bool reverse) {
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  Trace trace;
  {
    const NoGradGuard no_history;
    trace = x.dtype() == DType::f64 ? run_forward<double>(sizes, x, start, w, reverse)
                                    : run_forward<float>(sizes, x, start, w, reverse);
  }
  const std::int64_t last = reverse ? 0 : sizes.steps - 1;
  RecurrentLayer out{trace.hidden.detach(), {}};
  {
    const NoGradGuard no_history;
    out.last = {part(trace.hidden, last).clone(), part(trace.cells, last).clone()};
  }
  const bool any = needs_grad(x, start.h, start.c, w.w_ih) || needs_grad(w.w_hh, w.b_ih, w.b_hh);
  if (!any) return out;
  auto node = make_node<LstmLayerBackward>(x, start.h, start.c, w.w_ih, w.w_hh, w.b_ih, w.b_hh);
  node->printed = printed;
  node->sizes = sizes;
  node->reverse = reverse;
  for (const Tensor* input : {&x, &start.h, &start.c, &w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh}) node->save(*input);
  for (const Tensor* kept : {&trace.gates, &trace.cells, &trace.tanhs, &trace.hidden}) node->save(*kept);
  record(out.output, node);
  record(out.last.h, node);
  record(out.last.c, node);
  return out;
}

}  // namespace core::detail

// The GRU layer by hand. Every step is one matrix product, a sigmoid over reset and update gate, a tanh and three short
// loops; products with the whole sequence are taken at once before and behind the steps.
#include "libcore/ops/recurrent.h"

#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

/// gates = sums for the sigmoid; recalled = the third part of the hidden state's sums.
template <class T>
void split_sums(const LayerSizes& s, const T* from_input, const T* from_hidden, T* gates, T* recalled) {
  const std::int64_t n = s.hidden;
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const T *x = from_input + row * 3 * n, *h = from_hidden + row * 3 * n;
    for (std::int64_t k = 0; k < 2 * n; ++k) gates[row * 2 * n + k] = x[k] + h[k];
    for (std::int64_t k = 0; k < n; ++k) recalled[row * n + k] = h[2 * n + k];
  }
}

template <class T>
void fresh_sums(const LayerSizes& s, const T* from_input, const T* gates, const T* recalled, T* fresh) {
  const std::int64_t n = s.hidden;
  for (std::int64_t row = 0; row < s.batch; ++row) {
    for (std::int64_t k = 0; k < n; ++k) {
      fresh[row * n + k] = from_input[row * 3 * n + 2 * n + k] + gates[row * 2 * n + k] * recalled[row * n + k];
    }
  }
}

template <class T>
void mix(const LayerSizes& s, const T* gates, const T* fresh, const T* before, T* hidden) {
  const std::int64_t n = s.hidden;
  for (std::int64_t row = 0; row < s.batch; ++row) {
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t j = row * n + k;
      hidden[j] = (before[j] - fresh[j]) * gates[row * 2 * n + n + k] + fresh[j];
    }
  }
}

template <class T>
GruTrace run_forward(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w, bool reverse) {
  const Tensor from_input = sums_of(dense_values(x).reshape({s.rows(), x.size(2)}), w.w_ih, w.b_ih);
  const TensorOptions made{.dtype = x.dtype(), .device = x.device()};
  GruTrace t{empty({s.steps, s.batch, 2 * s.hidden}, made), empty({s.steps, s.batch, s.hidden}, made), {}, {}};
  t.recalled = empty_like(t.fresh);
  t.hidden = empty_like(t.fresh);
  Tensor h = dense_values(h0);
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t step = reverse ? s.steps - 1 - i : i, place = step * s.state();
    const Tensor from_hidden = sums_of(h, w.w_hh, w.b_hh);
    const T* x_sums = look<T>(from_input, 3 * place);
    T *gates = at<T>(t.gates, 2 * place), *fresh = at<T>(t.fresh, place), *recalled = at<T>(t.recalled, place);
    split_sums<T>(s, x_sums, look<T>(from_hidden, 0), gates, recalled);
    raw::unary_into(UnaryOp::sigmoid, t.gates.select(0, step), t.gates.select(0, step));
    fresh_sums<T>(s, x_sums, gates, recalled, fresh);
    raw::unary_into(UnaryOp::tanh, t.fresh.select(0, step), t.fresh.select(0, step));
    mix<T>(s, gates, fresh, look<T>(h, 0), at<T>(t.hidden, place));
    h = t.hidden.select(0, step);
  }
  return t;
}

/// dh: of this step on entry; what goes straight on to the step before on return.
template <class T>
void gate_grads(const LayerSizes& s, const T* gates, const T* fresh, const T* recalled, const T* before, T* dh,
                T* input_sums, T* hidden_sums) {
  const std::int64_t n = s.hidden;
  for (std::int64_t row = 0; row < s.batch; ++row) {
    T *dx = input_sums + row * 3 * n, *ds = hidden_sums + row * 3 * n;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t j = row * n + k;
      const T r = gates[row * 2 * n + k], z = gates[row * 2 * n + n + k], f = fresh[j];
      const T d_fresh = dh[j] * (1 - z) * (1 - f * f);
      dx[k] = ds[k] = d_fresh * recalled[j] * r * (1 - r);
      dx[n + k] = ds[n + k] = dh[j] * (before[j] - f) * z * (1 - z);
      dx[2 * n + k] = d_fresh;
      ds[2 * n + k] = d_fresh * r;
      dh[j] *= z;
    }
  }
}

template <class T>
GruGrads run_backward(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh,
                      const TensorList& grads, bool reverse) {
  const TensorOptions made{.dtype = h0.dtype(), .device = h0.device()};
  GruGrads out;
  out.input_sums = empty({s.steps, s.batch, 3 * s.hidden}, made);
  out.hidden_sums = empty_like(out.input_sums);
  out.h = grads[1].defined() ? raw::clone(raw::contiguous(grads[1])) : zeros({s.batch, s.hidden}, made);
  const Tensor first = dense_values(h0);
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const std::int64_t step = reverse ? s.steps - 1 - i : i, earlier = reverse ? step + 1 : step - 1;
    const std::int64_t place = step * s.state();
    if (grads[0].defined()) out.h.add_(grads[0].select(0, step));
    const T* before = i == 0 ? look<T>(first, 0) : look<T>(t.hidden, earlier * s.state());
    gate_grads<T>(s, look<T>(t.gates, 2 * place), look<T>(t.fresh, place), look<T>(t.recalled, place), before,
                  at<T>(out.h, 0), at<T>(out.input_sums, 3 * place), at<T>(out.hidden_sums, 3 * place));
    out.h = raw::product(out.hidden_sums.select(0, step), w_hh, {.beta = 1, .start = out.h});
  }
  return out;
}

GruTrace forward(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w, bool reverse) {
  if (!raw::backend_of(x).is_host_memory()) return gru_forward_on_device(s, x, h0, w, reverse);
  if (x.dtype() == DType::f64) return run_forward<double>(s, x, h0, w, reverse);
  return run_forward<float>(s, x, h0, w, reverse);
}

GruGrads backward(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh, const TensorList& grads,
                  bool reverse) {
  if (!raw::backend_of(h0).is_host_memory()) return gru_backward_on_device(s, t, h0, w_hh, grads, reverse);
  if (h0.dtype() == DType::f64) return run_backward<double>(s, t, h0, w_hh, grads, reverse);
  return run_backward<float>(s, t, h0, w_hh, grads, reverse);
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
    if (wants(5)) result[5] = raw::reduce(ReduceOp::sum, of_input, {.dims = {0}});
    if (wants(6)) result[6] = raw::reduce(ReduceOp::sum, of_hidden, {.dims = {0}});
    return result;
  }
};

}  // namespace

RecurrentLayer gru_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                         bool reverse) {
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

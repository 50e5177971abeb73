// Recurrent layers that a library of the device computes whole: all steps and the products with the input in one call,
// and the gradient in another.
#include "libcore/ops/recurrent.h"

#include <array>
#include <optional>
#include <vector>

#include "libcore/autograd/engine.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/recurrent_table.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

Tensor made(const Shape& sizes, const Tensor& like) {
  return empty(sizes, {.dtype = like.dtype(), .device = like.device()});
}
Tensor bytes(std::size_t count, const Tensor& like) {
  if (count == 0) return {};
  return empty({static_cast<std::int64_t>(count)}, {.dtype = DType::u8, .device = like.device()});
}
const void* read(const Tensor& x) {
  return x.defined() ? x.raw_data() : nullptr;
}
void* write(const Tensor& x) {
  return x.defined() ? x.mutable_raw_data() : nullptr;
}
/// The library goes from the first step to the last. Dense.
Tensor in_its_order(const Tensor& x, bool reverse) {
  if (!reverse) return dense_values(x);
  return raw::index_select(x.detach(), 0, arange(x.size(0) - 1, -1, -1, {.device = x.device()}));
}

/// The dense inputs of a layer. c0 and biases may be undefined.
struct Inputs {
  Tensor x, h0, c0;
  std::array<Tensor, 4> weights;  // w_ih, w_hh, b_ih, b_hh

  bool are_alike() const {
    for (const Tensor* t : {&h0, &c0, &weights[0], &weights[1], &weights[2], &weights[3]}) {
      if (t->defined() && (t->dtype() != x.dtype() || t->device() != x.device())) return false;
    }
    return weights[2].defined() == weights[3].defined();
  }
};

/// inputs: as LayerBackward saves them.
Inputs dense_inputs(const TensorList& in, bool reverse) {
  return {in_its_order(in[0], reverse),
          dense_values(in[1]),
          dense_or_none(in[2]),
          {dense_values(in[3]), dense_values(in[4]), dense_or_none(in[5]), dense_or_none(in[6])}};
}

/// Kept: the output, and what the library left.
struct WholeLayerBackward final : LayerBackward {
  WholeLayerBackward(RecurrentKind layer_kind, const LayerSizes& layer_sizes, bool in_reverse,
                     const WholeLayerPlan& its_plan)
      : LayerBackward(layer_kind, "CudnnRnnBackward0", layer_sizes, in_reverse), plan(its_plan) {}

  const WholeLayerPlan plan;

 private:
  TensorList by_hand(const TensorList& in, const TensorList& grads) const override {
    const Inputs dense = dense_inputs(in, reverse);
    const Tensor y = saved(7), left = saved(8);
    TensorList result{made(in[0].sizes(), y), made(in[1].sizes(), y), in[2].defined() ? made(in[2].sizes(), y) : in[2]};
    const bool of_weights = wants(3) || wants(4) || wants(5) || wants(6);
    for (std::size_t i = 3; i < 7; ++i) {
      result.push_back(of_weights && in[i].defined() ? made(in[i].sizes(), y) : Tensor());
    }
    // The gradient changes what forward left, which another one may need.
    const Tensor reserve = keeps_graph() && left.defined() ? raw::clone(left) : left;
    if (!run(dense, y, reserve, grads, result)) return by_steps(in, grads);
    if (reverse) result[0] = in_its_order(result[0], true);
    for (std::size_t i = 0; i < 7; ++i) {
      if (!wants(i)) result[i] = Tensor();
    }
    return result;
  }

  /// False when the library refused.
  bool run(const Inputs& in, const Tensor& y, const Tensor& reserve, const TensorList& grads,
           const TensorList& out) const {
    const Tensor in_order = in_its_order(y, reverse), h_grad = dense_or_none(grads[1]);
    const Tensor c_grad = kind == RecurrentKind::lstm ? dense_or_none(grads[2]) : Tensor();
    const Tensor y_grad = grads[0].defined() ? in_its_order(grads[0], reverse) : zeros_like(in_order);
    const Tensor weights = bytes(plan.weights, y), work = bytes(plan.work, y);
    const Tensor weights_grad = out[3].defined() ? bytes(plan.weights, y) : Tensor();
    const auto& [w_ih, w_hh, b_ih, b_hh] = in.weights;
    WholeLayerGradParams params{.plan = plan,
                                .w_ih = read(w_ih),
                                .w_hh = read(w_hh),
                                .b_ih = read(b_ih),
                                .b_hh = read(b_hh),
                                .x = read(in.x),
                                .h0 = read(in.h0),
                                .c0 = read(in.c0),
                                .y = read(in_order),
                                .y_grad = read(y_grad),
                                .h_grad = read(h_grad),
                                .c_grad = read(c_grad),
                                .x_grad = write(out[0]),
                                .h0_grad = write(out[1]),
                                .c0_grad = write(out[2]),
                                .w_ih_grad = write(out[3]),
                                .w_hh_grad = write(out[4]),
                                .b_ih_grad = write(out[5]),
                                .b_hh_grad = write(out[6]),
                                .weights = write(weights),
                                .weights_grad = write(weights_grad),
                                .work = write(work),
                                .reserve = write(reserve)};
    recurrent_table_of(y).whole_layer_grad[slot_of(y)](params);
    return params.is_done;
  }

  TensorList by_steps(const TensorList& in, const TensorList& grads) const {
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < 7; ++i) wanted.push_back(wants(i));
    return gradients_by_steps(kind, in, wanted, grads, reverse);
  }
};

/// Whether the device asks a library for layers, and would not be faster by itself.
bool asks_library(RecurrentKind kind, const RecurrentTable& table, std::size_t slot, std::int64_t hidden) {
  if (table.plan_whole_layer[slot] == nullptr || table.whole_layer[slot] == nullptr) return false;
  if (table.whole_layer_grad[slot] == nullptr) return false;
  const auto one_launch = table.is_lstm_one_launch[slot];
  return kind != RecurrentKind::lstm || one_launch == nullptr || !one_launch(hidden);
}

struct WholeOutputs {
  Tensor y, h, c, reserve;
};

/// Nothing when the library refused.
std::optional<WholeOutputs> run_forward(const LayerSizes& s, const Inputs& in, const WholeLayerPlan& plan) {
  const Tensor& x = in.x;
  WholeOutputs out{made({s.steps, s.batch, s.hidden}, x), made({s.batch, s.hidden}, x), {}, {}};
  if (in.c0.defined()) out.c = made({s.batch, s.hidden}, x);
  out.reserve = bytes(plan.reserve, x);
  const Tensor weights = bytes(plan.weights, x), work = bytes(plan.work, x);
  const auto& [w_ih, w_hh, b_ih, b_hh] = in.weights;
  WholeLayerParams params{.plan = plan,
                          .w_ih = read(w_ih),
                          .w_hh = read(w_hh),
                          .b_ih = read(b_ih),
                          .b_hh = read(b_hh),
                          .x = read(x),
                          .h0 = read(in.h0),
                          .c0 = read(in.c0),
                          .y = write(out.y),
                          .h = write(out.h),
                          .c = write(out.c),
                          .weights = write(weights),
                          .work = write(work),
                          .reserve = write(out.reserve)};
  recurrent_table_of(x).whole_layer[slot_of(x)](params);
  if (!params.is_done) return std::nullopt;
  return out;
}

}  // namespace

std::optional<RecurrentLayer> whole_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                                          const RecurrentWeights& w, bool reverse) {
  const LayerSizes sizes{x.size(0), x.size(1), w.w_hh.size(1)};
  const RecurrentTable& table = recurrent_table_of(x);
  if (!asks_library(kind, table, slot_of(x), sizes.hidden)) return std::nullopt;
  const LayerInputs in{x, start, w};
  const bool training = in.need_grad();
  const WholeLayer layer{kind,      x.dtype(),    sizes.steps,      sizes.batch,
                         x.size(2), sizes.hidden, w.b_ih.defined(), training};
  WholeLayerPlan plan{};
  if (!table.plan_whole_layer[slot_of(x)](layer, plan)) return std::nullopt;
  std::optional<WholeOutputs> made_by_it;
  RecurrentLayer out;
  {
    const NoGradGuard no_history;
    const Tensor c0 = kind == RecurrentKind::lstm ? start.c : Tensor();
    const Inputs dense = dense_inputs({x, start.h, c0, w.w_ih, w.w_hh, w.b_ih, w.b_hh}, reverse);
    if (!dense.are_alike()) return std::nullopt;
    made_by_it = run_forward(sizes, dense, plan);
    if (!made_by_it) return std::nullopt;
    if (reverse) made_by_it->y = in_its_order(made_by_it->y, true);
    out = {made_by_it->y.detach(), {made_by_it->h, made_by_it->c}};
  }
  if (!training) return out;
  record_layer(make_intrusive<WholeLayerBackward>(kind, sizes, reverse, plan), in, out,
               {&made_by_it->y, &made_by_it->reserve});
  return out;
}

}  // namespace core::detail

#pragma once
// One direction of a recurrent layer as one operation, forward and backward written out. Internal to ops.
// Thread safety: pure functions. Use: RecurrentLayer y = detail::lstm_layer("StackBackward0", x, state, w, false);

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/recurrent.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// As recurrent_layer; `printed`, a literal, is the node's name. REQUIRES: no projection; f32 or f64 on the host, or a
/// device that has the kernels (backend/recurrent_table.h).
RecurrentLayer lstm_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                          bool reverse);
/// Whether there is a kernel for these numbers of bf16, and the layer by it: states of f32, h rounded at every step.
bool has_bf16_lstm(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w);
RecurrentLayer bf16_lstm_layer(const Tensor& x, const RecurrentState& start, const RecurrentWeights& w, bool reverse);
RecurrentLayer gru_layer(const char* printed, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                         bool reverse);
/// tanh or relu. REQUIRES: a device that has the cells.
RecurrentLayer rnn_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start, const RecurrentWeights& w,
                         bool reverse);
/// Any kind by a library of the device; nothing where there is none, it cannot, or the device's own kernel is faster.
std::optional<RecurrentLayer> whole_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                                          const RecurrentWeights& w, bool reverse);
/// The same in single operations, for gradients of gradients.
RecurrentLayer stepwise_layer(RecurrentKind kind, const Tensor& x, const RecurrentState& start,
                              const RecurrentWeights& w, bool reverse);

// What the files share.

struct LayerSizes {
  std::int64_t steps, batch, hidden;
  std::int64_t state() const { return batch * hidden; }
  std::int64_t rows() const { return steps * batch; }
};

/// What a GRU layer's forward leaves for backward, (time, batch, width) each.
struct GruTrace {
  Tensor gates;     ///< reset and update gate; width 2 * hidden
  Tensor fresh;     ///< the new state's tanh
  Tensor recalled;  ///< what the reset gate multiplies: the product of the hidden state for the new one
  Tensor hidden;    ///< h of every step
};
/// Gradients of the sums that come from the input and from the hidden state, (time, batch, 3 * hidden) each.
struct GruGrads {
  Tensor input_sums, hidden_sums, h;
};
// By the cells of a device, with a product between each two.
GruTrace gru_forward_on_device(const LayerSizes& s, const Tensor& x, const Tensor& h0, const RecurrentWeights& w,
                               bool reverse);
GruGrads gru_backward_on_device(const LayerSizes& s, const GruTrace& t, const Tensor& h0, const Tensor& w_hh,
                                const TensorList& grads, bool reverse);

/// rows * weight^T + bias, without history.
Tensor sums_of(const Tensor& rows, const Tensor& weight, const Tensor& bias);

/// For writing, and for reading, which leaves the version as it is.
template <class T>
T* at(const Tensor& x, std::int64_t offset) {
  return x.mutable_data<T>() + offset;
}
template <class T>
const T* look(const Tensor& x, std::int64_t offset) {
  return x.data<T>() + offset;
}

/// The kernels of x's device, and the place in a row of them of those for its dtype.
const RecurrentTable& recurrent_table_of(const Tensor& x);
inline std::size_t slot_of(const Tensor& x) {
  return static_cast<std::size_t>(x.dtype());
}

/// Dense values without history.
Tensor dense_values(const Tensor& x);
/// The same, or an undefined tensor for an undefined one.
Tensor dense_or_none(const Tensor& x);
/// h before every step. hidden: (time, batch, hidden).
Tensor hidden_before(const LayerSizes& s, const Tensor& hidden, const Tensor& h0, bool reverse);
/// Gradients through single operations. inputs: x, h0, c0, w_ih, w_hh, b_ih, b_hh.
TensorList gradients_by_steps(RecurrentKind kind, const TensorList& inputs, const std::vector<bool>& wanted,
                              const TensorList& grads, bool reverse);

/// Backward of a layer. Saved: x, h0, c0 (LSTM's alone), w_ih, w_hh, b_ih, b_hh, then what forward kept.
struct LayerBackward : Node {
  LayerBackward(RecurrentKind layer_kind, const char* printed_name, const LayerSizes& layer_sizes, bool in_reverse)
      : kind(layer_kind), printed(printed_name), sizes(layer_sizes), reverse(in_reverse) {}

  std::string_view name() const override { return printed; }
  TensorList apply(TensorList grads) override;

  const RecurrentKind kind;
  const char* const printed;
  const LayerSizes sizes;
  const bool reverse;

 protected:
  /// Without history. inputs: those seven; a gradient for each of them.
  virtual TensorList by_hand(const TensorList& inputs, const TensorList& grads) const = 0;
};

struct LayerInputs {
  const Tensor& x;
  const RecurrentState& start;
  const RecurrentWeights& w;
  bool need_grad() const { return needs_grad(x, start.h, start.c, w.w_ih) || needs_grad(w.w_hh, w.b_ih, w.b_hh); }
};
/// Makes what a layer gave the outputs of `node`.
void record_layer(const IntrusivePtr<LayerBackward>& node, const LayerInputs& in, RecurrentLayer& out,
                  std::initializer_list<const Tensor*> kept);

}  // namespace core::detail

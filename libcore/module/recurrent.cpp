#include "libcore/module/recurrent.h"

#include <cmath>
#include <utility>

#include "libcore/autograd/autocast.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/module/detail/recurrent_state.h"
#include "libcore/module/init.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_view.h"

namespace core {
namespace {

std::int64_t gate_count(RecurrentKind kind) {
  return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1;
}

RecurrentKind kind_of(const RecurrentOptions& o) {
  if (o.nonlinearity == "tanh") return RecurrentKind::tanh;
  if (o.nonlinearity == "relu") return RecurrentKind::relu;
  throw Error(ErrorCode::value, "Unknown nonlinearity '" + o.nonlinearity + "'. Select from 'tanh' or 'relu'.");
}

void check_options(RecurrentKind kind, std::int64_t hidden, const RecurrentOptions& o) {
  if (kind != RecurrentKind::lstm && o.proj_size != 0) {
    throw Error(ErrorCode::value, "proj_size argument is only supported for LSTM, not RNN or GRU");
  }
  if (o.dropout < 0 || o.dropout > 1) {
    throw Error(ErrorCode::value,
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed");
  }
  if (o.dropout > 0 && o.num_layers == 1) {
    warn(
        "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
        "greater than 1, but got dropout=" +
        python_float(o.dropout) + " and num_layers=1");
  }
  if (hidden <= 0) throw Error(ErrorCode::value, "hidden_size must be greater than zero");
  if (o.num_layers <= 0) throw Error(ErrorCode::value, "num_layers must be greater than zero");
  if (o.proj_size < 0) {
    throw Error(ErrorCode::value, "proj_size should be a positive integer or zero to disable projections");
  }
  if (o.proj_size >= hidden) throw Error(ErrorCode::value, "proj_size has to be smaller than hidden_size");
}

std::string size_tuple(const Shape& sizes) {
  return "(" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " + std::to_string(sizes[2]) + ")";
}

std::string for_input(std::int64_t rank) {
  return std::string("For ") + (rank == 3 ? "batched 3-D" : "unbatched 2-D") + " input, ";
}

std::string rank_text(const Tensor& x) {
  return std::to_string(x.dim()) + "-D";
}

void check_same_device(const Tensor& x, const Tensor& other, const char* what) {
  if (x.device() == other.device()) return;
  throw Error(ErrorCode::runtime, std::string("Input and ") + what +
                                      " tensors are not at the same device, found input tensor at " + x.device().str() +
                                      " and " + what + " tensor at " + other.device().str());
}

PackedSequence with_rows(const PackedSequence& x, const Tensor& rows) {
  return {rows, x.batch_sizes, x.sorted_indices, x.unsorted_indices};
}

}  // namespace

RecurrentBase::RecurrentBase(const char* name, RecurrentKind kind, std::int64_t in, std::int64_t hidden,
                             const RecurrentOptions& given)
    : input_size(in), hidden_size(hidden), options(given), name_(name), kind_(kind) {
  check_options(kind, hidden, given);
  make_parameters();
  reset_parameters();
}

void RecurrentBase::make_parameters() {
  const TensorOptions made{.dtype = options.dtype, .device = options.device};
  const std::int64_t rows = gate_count(kind_) * hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t in = layer == 0 ? input_size : output_size() * directions();
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* what, const Shape& sizes) {
        parameters_.emplace_back(what + suffix, Parameter(empty(sizes, made)));
      };
      add("weight_ih", {rows, in});
      add("weight_hh", {rows, output_size()});
      if (options.bias) add("bias_ih", {rows}), add("bias_hh", {rows});
      if (options.proj_size > 0) add("weight_hr", {options.proj_size, hidden_size});
    }
  }
}

void RecurrentBase::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (auto& [name, parameter] : parameters_) init::uniform_(parameter, -bound, bound);
}

Parameter& RecurrentBase::operator[](const std::string& name) {
  for (auto& [key, parameter] : parameters_) {
    if (key == name) return parameter;
  }
  throw Error(ErrorCode::attribute, std::string("'") + name_ + "' object has no attribute '" + name + "'");
}

void RecurrentBase::list(Members& m) {
  for (auto& [name, parameter] : parameters_) m.parameter(name, parameter);
}

std::string RecurrentBase::describe() const {
  std::string text = std::to_string(input_size) + ", " + std::to_string(hidden_size);
  if (options.proj_size != 0) text += ", proj_size=" + std::to_string(options.proj_size);
  if (options.num_layers != 1) text += ", num_layers=" + std::to_string(options.num_layers);
  if (!options.bias) text += ", bias=False";
  if (options.batch_first) text += ", batch_first=True";
  if (options.dropout != 0) text += ", dropout=" + python_float(options.dropout);
  if (options.bidirectional) text += ", bidirectional=True";
  return text;
}

RecurrentWeights RecurrentBase::weights(std::int64_t layer, std::int64_t direction) const {
  const std::size_t each = 2 + (options.bias ? 2 : 0) + (options.proj_size > 0 ? 1 : 0);
  std::size_t at = static_cast<std::size_t>(layer * directions() + direction) * each;
  RecurrentWeights w;
  w.w_ih = parameters_[at++].second;
  w.w_hh = parameters_[at++].second;
  if (options.bias) w.b_ih = parameters_[at++].second, w.b_hh = parameters_[at++].second;
  if (options.proj_size > 0) w.w_hr = parameters_[at].second;
  return w;
}

void RecurrentBase::check_input(const Tensor& x) const {
  if (x.dim() != 2 && x.dim() != 3) {
    const bool plain = kind_ == RecurrentKind::tanh || kind_ == RecurrentKind::relu;
    throw Error(ErrorCode::value, std::string(name_) + ": Expected input to be 2D or 3D, got " +
                                      std::to_string(x.dim()) + (plain ? "D tensor instead" : "D instead"));
  }
}

void detail::check_state_size(const Tensor& state, const Shape& wanted, const char* what) {
  if (state.sizes() == wanted) return;
  throw Error(ErrorCode::runtime,
              std::string("Expected ") + what + " size " + size_tuple(wanted) + ", got " + to_list(state.sizes()));
}

void detail::check_lstm_ranks(std::int64_t rank, const Tensor& h0, const Tensor& c0) {
  if (h0.dim() == rank && c0.dim() == rank) return;
  throw Error(ErrorCode::runtime, for_input(rank) + "hx and cx should also be " + std::to_string(rank) +
                                      "-D but got (" + rank_text(h0) + ", " + rank_text(c0) + ") tensors");
}

void RecurrentBase::check_state_ranks(const Tensor& x, const Tensor& h0, const Tensor& c0) const {
  if (!h0.defined()) return;
  if (kind_ == RecurrentKind::lstm) return detail::check_lstm_ranks(x.dim(), h0, c0);
  if (h0.dim() != x.dim()) {
    throw Error(ErrorCode::runtime, for_input(x.dim()) + "hx should also be " + std::to_string(x.dim()) +
                                        "-D but got " + rank_text(h0) + " tensor");
  }
}

void RecurrentBase::check_rank(const Tensor& x, std::int64_t wanted) const {
  if (x.dim() == wanted) return;
  throw Error(ErrorCode::runtime,
              "input must have " + std::to_string(wanted) + " dimensions, got " + std::to_string(x.dim()));
}

void RecurrentBase::check_states(const Tensor& x, std::int64_t samples, const Start& start) const {
  const Tensor& weight = parameters_[0].second;
  if (x.dtype() != weight.dtype() && !core::detail::autocast_mode.is_on()) {
    const auto name = [](const Tensor& t) { return "torch." + std::string(core::name(t.dtype())); };
    throw Error(ErrorCode::value, "RNN input dtype (" + name(x) + ") does not match weight dtype (" + name(weight) +
                                      "). Convert input: input.to(" + name(weight) + "), or convert model: model.to(" +
                                      name(x) + ")");
  }
  if (x.size(-1) != input_size) {
    throw Error(ErrorCode::runtime, "input.size(-1) must be equal to input_size. Expected " +
                                        std::to_string(input_size) + ", got " + std::to_string(x.size(-1)));
  }
  const std::int64_t count = options.num_layers * directions();
  if (kind_ == RecurrentKind::lstm) {
    detail::check_state_size(start.h, {count, samples, output_size()}, "hidden[0]");
    detail::check_state_size(start.c, {count, samples, hidden_size}, "hidden[1]");
  } else {
    detail::check_state_size(start.h, {count, samples, hidden_size}, "hidden");
  }
  check_same_device(x, start.h, "hidden");
  check_same_device(x, weight, "parameter");
}

RecurrentBase::Output RecurrentBase::run_layers(const Tensor& x, const Start& start, bool training,
                                                const std::vector<std::int64_t>* batch_sizes) const {
  Tensor input = x;
  std::vector<Tensor> last_h, last_c;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const std::int64_t at = layer * directions() + direction;
      const RecurrentState state{start.h.select(0, at), start.c.defined() ? start.c.select(0, at) : Tensor()};
      const RecurrentWeights w = weights(layer, direction);
      const bool reverse = direction == 1;
      const RecurrentLayer done = batch_sizes == nullptr
                                      ? recurrent_layer(kind_, input, state, w, reverse)
                                      : packed_recurrent_layer(kind_, input, *batch_sizes, state, w, reverse);
      outputs.push_back(done.output);
      last_h.push_back(done.last.h);
      last_c.push_back(done.last.c);
    }
    input = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < options.num_layers) input = dropout(input, options.dropout, training);
  }
  return {input, stack(last_h), kind_ == RecurrentKind::lstm ? stack(last_c) : Tensor()};
}

RecurrentBase::Output RecurrentBase::run(const Tensor& x, const Tensor& h0, const Tensor& c0, bool training) const {
  check_input(x);
  const bool single = x.dim() == 2;
  check_state_ranks(x, h0, c0);
  const std::int64_t batch_dim = options.batch_first ? 0 : 1;
  Tensor input = single ? x.unsqueeze(batch_dim) : x;
  if (options.batch_first) input = input.transpose(0, 1);
  const std::int64_t count = options.num_layers * directions(), samples = input.size(1);
  const auto state = [&](const Tensor& given, std::int64_t size) {
    if (given.defined()) return single ? given.unsqueeze(1) : given;
    return zeros({count, samples, size}, {.dtype = x.dtype(), .device = x.device()});
  };
  const bool lstm = kind_ == RecurrentKind::lstm;
  const Start start{state(h0, output_size()), lstm ? state(c0, hidden_size) : Tensor()};
  check_states(input, samples, start);
  if (input.size(0) == 0) throw Error(ErrorCode::runtime, "Expected sequence length to be larger than 0 in RNN");
  Output out = run_layers(input, start, training, nullptr);
  if (options.batch_first) out.y = lstm ? out.y.transpose(0, 1) : transposed_in_place(out.y);
  if (!single) return out;
  out.y = out.y.squeeze(batch_dim);
  out.h = out.h.squeeze(1);
  if (lstm) out.c = out.c.squeeze(1);
  return out;
}

RecurrentBase::Output RecurrentBase::run(const PackedSequence& x, const Tensor& h0, const Tensor& c0,
                                         bool training) const {
  const std::vector<std::int64_t> batch_sizes = x.sizes_of_steps();
  const std::int64_t count = options.num_layers * directions(), samples = batch_sizes[0];
  const auto state = [&](const Tensor& given, std::int64_t size) {
    if (!given.defined()) return zeros({count, samples, size}, {.dtype = x.data.dtype(), .device = x.data.device()});
    return x.sorted_indices.defined() ? index_select(given, 1, x.sorted_indices) : given;
  };
  const bool lstm = kind_ == RecurrentKind::lstm;
  const Start start{state(h0, output_size()), lstm ? state(c0, hidden_size) : Tensor()};
  check_rank(x.data, 2);
  check_states(x.data, samples, start);
  Output out = run_layers(x.data, start, training, &batch_sizes);
  if (!x.unsorted_indices.defined()) return out;
  out.h = index_select(out.h, 1, x.unsorted_indices);
  if (lstm) out.c = index_select(out.c, 1, x.unsorted_indices);
  return out;
}

RNN::RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given)
    : RecurrentBase("RNN", kind_of(given), in, hidden, given) {}

std::tuple<Tensor, Tensor> RNN::forward(const Tensor& x, const Tensor& h0) const {
  const Output out = run(x, h0, {}, is_training());
  return {out.y, out.h};
}

std::tuple<PackedSequence, Tensor> RNN::forward(const PackedSequence& x, const Tensor& h0) const {
  const Output out = run(x, h0, {}, is_training());
  return {with_rows(x, out.y), out.h};
}

LSTM::LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given)
    : RecurrentBase("LSTM", RecurrentKind::lstm, in, hidden, given) {}

std::tuple<Tensor, std::tuple<Tensor, Tensor>> LSTM::forward(const Tensor& x,
                                                             const std::tuple<Tensor, Tensor>& state) const {
  const Output out = run(x, std::get<0>(state), std::get<1>(state), is_training());
  return {out.y, {out.h, out.c}};
}

std::tuple<PackedSequence, std::tuple<Tensor, Tensor>> LSTM::forward(const PackedSequence& x,
                                                                     const std::tuple<Tensor, Tensor>& state) const {
  const Output out = run(x, std::get<0>(state), std::get<1>(state), is_training());
  return {with_rows(x, out.y), {out.h, out.c}};
}

GRU::GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& given)
    : RecurrentBase("GRU", RecurrentKind::gru, in, hidden, given) {}

std::tuple<Tensor, Tensor> GRU::forward(const Tensor& x, const Tensor& h0) const {
  const Output out = run(x, h0, {}, is_training());
  return {out.y, out.h};
}

std::tuple<PackedSequence, Tensor> GRU::forward(const PackedSequence& x, const Tensor& h0) const {
  const Output out = run(x, h0, {}, is_training());
  return {with_rows(x, out.y), out.h};
}

template class ModuleOf<RNN>;
template class ModuleOf<LSTM>;
template class ModuleOf<GRU>;
template class ModuleOf<RNNCell>;
template class ModuleOf<LSTMCell>;
template class ModuleOf<GRUCell>;

}  // namespace core

// The cells of module/recurrent.h: one step each.
#include <cmath>
#include <string>

#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/module/recurrent.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

void check_rank(const char* name, const char* what, const Tensor& x) {
  if (x.dim() == 1 || x.dim() == 2) return;
  throw Error(ErrorCode::value, std::string(name) + ": Expected " + what + " to be 1D or 2D, got " +
                                    std::to_string(x.dim()) + "D instead");
}

void check_state(const Tensor& x, const Tensor& state, std::int64_t hidden, const char* number) {
  if (x.size(0) != state.size(0)) {
    throw Error(ErrorCode::runtime, "Input batch size " + std::to_string(x.size(0)) + " doesn't match hidden" + number +
                                        " batch size " + std::to_string(state.size(0)));
  }
  if (state.size(1) != hidden) {
    throw Error(ErrorCode::runtime, std::string("hidden") + number + " has inconsistent hidden_size: got " +
                                        std::to_string(state.size(1)) + ", expected " + std::to_string(hidden));
  }
}

}  // namespace

CellBase::CellBase(const char* name, std::int64_t gates, std::int64_t in, std::int64_t hidden, const CellOptions& given)
    : input_size(in), hidden_size(hidden), options(given), name_(name) {
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  weight_ih = Parameter(empty({gates * hidden, in}, made));
  weight_hh = Parameter(empty({gates * hidden, hidden}, made));
  if (given.bias) bias_ih = Parameter(empty({gates * hidden}, made));
  if (given.bias) bias_hh = Parameter(empty({gates * hidden}, made));
  reset_parameters();
}

void CellBase::reset_parameters() {
  const double bound = hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  for (const Parameter* parameter : {&weight_ih, &weight_hh, &bias_ih, &bias_hh}) {
    if (parameter->defined()) init::uniform_(*parameter, -bound, bound);
  }
}

void CellBase::list(Members& m) {
  m.parameter("weight_ih", weight_ih).parameter("weight_hh", weight_hh);
  m.parameter("bias_ih", bias_ih).parameter("bias_hh", bias_hh);
}

std::string CellBase::describe() const {
  std::string text = std::to_string(input_size) + ", " + std::to_string(hidden_size);
  if (!options.bias) text += ", bias=False";
  if (options.nonlinearity != "tanh") text += ", nonlinearity=" + options.nonlinearity;
  return text;
}

CellBase::Batch CellBase::batch(const Tensor& x, const Tensor& h, const Tensor& c) const {
  check_rank(name_, "input", x);
  const bool single = x.dim() == 1;
  Batch result{single ? x.unsqueeze(0) : x, h, c, single};
  if (result.x.size(1) != input_size) {
    throw Error(ErrorCode::runtime, "input has inconsistent input_size: got " + std::to_string(result.x.size(1)) +
                                        " expected " + std::to_string(input_size));
  }
  const bool given = h.defined();
  for (Tensor* state : {&result.h, &result.c}) {
    if (!state->defined()) {
      *state = zeros({result.x.size(0), hidden_size}, {.dtype = x.dtype(), .device = x.device()});
      continue;
    }
    check_rank(name_, "hidden", *state);
    if (single) *state = state->unsqueeze(0);
  }
  if (given) check_state(result.x, result.h, hidden_size, c.defined() ? "[0]" : "");
  if (given && c.defined()) check_state(result.x, result.c, hidden_size, "[1]");
  return result;
}

RNNCell::RNNCell(std::int64_t in, std::int64_t hidden, const CellOptions& given)
    : CellBase("RNNCell", 1, in, hidden, given) {}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  const Batch b = batch(x, h, {});
  if (options.nonlinearity != "tanh" && options.nonlinearity != "relu") {
    throw Error(ErrorCode::runtime, "Unknown nonlinearity: " + options.nonlinearity);
  }
  const bool is_tanh = options.nonlinearity == "tanh";
  const Tensor next = is_tanh ? rnn_tanh_cell(b.x, b.h, weights()) : rnn_relu_cell(b.x, b.h, weights());
  return b.single ? next.squeeze(0) : next;
}

LSTMCell::LSTMCell(std::int64_t in, std::int64_t hidden, const CellOptions& given)
    : CellBase("LSTMCell", 4, in, hidden, given) {}

std::tuple<Tensor, Tensor> LSTMCell::forward(const Tensor& x, const std::tuple<Tensor, Tensor>& state) const {
  const Batch b = batch(x, std::get<0>(state), std::get<1>(state));
  const RecurrentState next = lstm_cell(b.x, {b.h, b.c}, weights());
  if (b.single) return {next.h.squeeze(0), next.c.squeeze(0)};
  return {next.h, next.c};
}

GRUCell::GRUCell(std::int64_t in, std::int64_t hidden, const CellOptions& given)
    : CellBase("GRUCell", 3, in, hidden, given) {}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const {
  const Batch b = batch(x, h, {});
  const Tensor next = gru_cell(b.x, b.h, weights());
  return b.single ? next.squeeze(0) : next;
}

}  // namespace core

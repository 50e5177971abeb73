// Recurrent layers, attention and transformer layers, and calling what has several inputs or results.
#include "libcore/module/recurrent.h"
#include "libcore/module/transformer.h"
#include "libcore/parallel/parallel_apply.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;

core::RecurrentOptions recurrent_options(Arguments& a) {
  core::RecurrentOptions o;
  o.num_layers = a.integer(2, "num_layers", 1);
  o.bias = a.flag(99, "bias", true);
  o.batch_first = a.flag(99, "batch_first", false);
  o.dropout = a.number(99, "dropout", 0);
  o.bidirectional = a.flag(99, "bidirectional", false);
  o.proj_size = a.integer(99, "proj_size", 0);
  o.nonlinearity = a.word(99, "nonlinearity", "tanh");
  return o;
}

template <class M>
AnyModule recurrent(Arguments& a) {
  const std::int64_t in = a.integer(0, "input_size"), hidden = a.integer(1, "hidden_size");
  return M(in, hidden, recurrent_options(a));
}

template <class M>
AnyModule cell(Arguments& a) {
  const std::int64_t in = a.integer(0, "input_size"), hidden = a.integer(1, "hidden_size");
  core::CellOptions o;
  o.bias = a.flag(2, "bias", true);
  o.nonlinearity = a.word(3, "nonlinearity", "tanh");
  return M(in, hidden, o);
}

AnyModule attention(Arguments& a) {
  const std::int64_t embed = a.integer(0, "embed_dim"), heads = a.integer(1, "num_heads");
  core::AttentionLayerOptions o;
  o.dropout = a.number(2, "dropout", 0);
  o.bias = a.flag(3, "bias", true);
  o.add_bias_kv = a.flag(4, "add_bias_kv", false);
  o.add_zero_attn = a.flag(5, "add_zero_attn", false);
  o.kdim = a.integer(6, "kdim", 0);
  o.vdim = a.integer(7, "vdim", 0);
  o.batch_first = a.flag(8, "batch_first", false);
  return core::MultiheadAttention(embed, heads, o);
}

template <class M>
AnyModule transformer(Arguments& a) {
  const std::int64_t width = a.integer(0, "d_model"), heads = a.integer(1, "nhead");
  core::TransformerOptions o;
  o.dim_feedforward = a.integer(2, "dim_feedforward", 2048);
  o.dropout = a.number(3, "dropout", 0.1);
  o.activation = a.word(4, "activation", "relu");
  o.batch_first = a.flag(99, "batch_first", false);
  o.norm_first = a.flag(99, "norm_first", false);
  return M(width, heads, o);
}

}  // namespace

void add_recurrent_makers(Makers& makers) {
  makers["RNN"] = recurrent<core::RNN>;
  makers["LSTM"] = recurrent<core::LSTM>;
  makers["GRU"] = recurrent<core::GRU>;
  makers["RNNCell"] = cell<core::RNNCell>;
  makers["LSTMCell"] = cell<core::LSTMCell>;
  makers["GRUCell"] = cell<core::GRUCell>;
}

void add_attention_makers(Makers& makers) {
  makers["MultiheadAttention"] = attention;
  makers["TransformerEncoderLayer"] = transformer<core::TransformerEncoderLayer>;
  makers["TransformerDecoderLayer"] = transformer<core::TransformerDecoderLayer>;
}

namespace {

/// The i-th input, undefined when there are fewer.
core::Tensor at(const std::vector<core::Tensor>& in, std::size_t i) {
  return i < in.size() ? in[i] : core::Tensor();
}

template <class M>
bool call_recurrent(core::Module& module, const std::vector<core::Tensor>& in, std::vector<core::Tensor>& out) {
  auto* made = dynamic_cast<M*>(&module);
  if (!made) return false;
  const auto [y, h] = made->forward(in[0], at(in, 1));
  out = {y, h};
  return true;
}

template <class M>
bool call_cell(core::Module& module, const std::vector<core::Tensor>& in, std::vector<core::Tensor>& out) {
  auto* made = dynamic_cast<M*>(&module);
  if (!made) return false;
  out = {made->forward(in[0], at(in, 1))};
  return true;
}

template <class M>
bool call_pair(core::Module& module, const std::vector<core::Tensor>& in, std::vector<core::Tensor>& out) {
  auto* made = dynamic_cast<M*>(&module);
  if (!made) return false;
  out = {made->forward(in.at(0), in.at(1))};
  return true;
}

bool call_lstm(core::Module& module, const std::vector<core::Tensor>& in, std::vector<core::Tensor>& out) {
  if (auto* lstm = dynamic_cast<core::LSTM*>(&module)) {
    const auto [y, state] = lstm->forward(in[0], {at(in, 1), at(in, 2)});
    out = {y, std::get<0>(state), std::get<1>(state)};
    return true;
  }
  auto* cell = dynamic_cast<core::LSTMCell*>(&module);
  if (!cell) return false;
  const auto [h, c] = cell->forward(in[0], {at(in, 1), at(in, 2)});
  out = {h, c};
  return true;
}

bool call_attention(core::Module& module, const std::vector<core::Tensor>& in, std::vector<core::Tensor>& out) {
  auto* made = dynamic_cast<core::MultiheadAttention*>(&module);
  if (!made) return false;
  const auto [y, weights] = made->forward(in.at(0), in.at(1), in.at(2));
  out = {y, weights};
  return true;
}

}  // namespace

std::vector<core::Tensor> call_module(core::Module& module, const std::vector<core::Tensor>& in) {
  std::vector<core::Tensor> out;
  const bool done = call_recurrent<core::RNN>(module, in, out) || call_recurrent<core::GRU>(module, in, out) ||
                    call_lstm(module, in, out) || call_cell<core::RNNCell>(module, in, out) ||
                    call_cell<core::GRUCell>(module, in, out) || call_attention(module, in, out) ||
                    call_pair<core::Bilinear>(module, in, out) ||
                    call_pair<core::TransformerDecoderLayer>(module, in, out);
  return done ? out : std::vector<core::Tensor>{module.call(in.at(0))};
}

}  // namespace test

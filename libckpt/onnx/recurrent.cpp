// Recurrent layers as ONNX operators: one direction of one layer each.
#include <string>

#include "libckpt/onnx/step.h"

namespace ckpt::onnx {
namespace {

/// The inputs of a step, in the order of recurrent_layer().
enum Part : std::size_t { kX, kHidden, kCell, kInputWeight, kHiddenWeight, kInputBias, kHiddenBias, kProjection };

/// Gates lie one behind another along the first dimension; ONNX has them in another order.
std::string reordered(Step& s, const std::string& weight, std::int64_t hidden, const Integers& order) {
  if (order.size() == 1) return weight;
  std::vector<std::string> gates;
  for (const std::int64_t gate : order) {
    gates.push_back(s.value("Slice", {weight, s.graph().list(Integers{gate * hidden}),
                                      s.graph().list(Integers{(gate + 1) * hidden}), s.graph().list(Integers{0})}));
  }
  return s.value("Concat", std::move(gates), {{"axis", std::int64_t{0}}});
}

/// With a dimension for the directions, of which a step has one.
std::string beside(Step& s, const std::string& x) {
  return s.value("Unsqueeze", {x, s.graph().list(Integers{0})});
}

std::string biases(Step& s, std::int64_t hidden, const Integers& order) {
  if (!s.has(kInputBias)) return "";
  const std::string first = reordered(s, s.in(kInputBias), hidden, order);
  const std::string second = reordered(s, s.in(kHiddenBias), hidden, order);
  return beside(s, s.value("Concat", {first, second}, {{"axis", std::int64_t{0}}}));
}

void layer(Step& s, const char* op, const Integers& order, std::vector<Attribute> attributes) {
  if (s.has(kProjection)) s.refuse("a projection has no operator");
  const std::int64_t hidden = s.input(kHiddenWeight).size(1);
  attributes.push_back({"hidden_size", hidden});
  attributes.push_back({"direction", std::string(s.flag("reverse") ? "reverse" : "forward")});
  std::vector<std::string> inputs = {s.in(kX),
                                     beside(s, reordered(s, s.in(kInputWeight), hidden, order)),
                                     beside(s, reordered(s, s.in(kHiddenWeight), hidden, order)),
                                     biases(s, hidden, order),
                                     "",
                                     beside(s, s.in(kHidden))};
  if (s.has(kCell)) inputs.push_back(beside(s, s.in(kCell)));
  std::vector<std::string> outputs = {s.graph().unique("steps"), s.graph().unique("hidden")};
  if (s.has(kCell)) outputs.push_back(s.graph().unique("cell"));
  s.graph().node(op, std::move(inputs), outputs, std::move(attributes));
  s.set(s.value("Squeeze", {outputs[0], s.graph().list(Integers{1})}), 0);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    s.set(s.value("Squeeze", {outputs[i], s.graph().list(Integers{0})}), i);
  }
}

/// Ours: input, forget, cell, output. Theirs: input, output, forget, cell.
void lstm(Step& s) {
  layer(s, "LSTM", {0, 3, 1, 2}, {});
}
/// Ours: reset, update, new. Theirs: update, reset, new.
void gru(Step& s) {
  layer(s, "GRU", {1, 0, 2}, {{"linear_before_reset", std::int64_t{1}}});
}
void rnn(Step& s) {
  layer(s, "RNN", {0}, {});
}

void rnn_relu(Step& s) {
  layer(s, "RNN", {0}, {{"activations", Texts{"Relu"}}});
}

}  // namespace

std::vector<NamedWriter> recurrent_writers() {
  return {{"lstm", lstm}, {"gru", gru}, {"rnn_tanh", rnn}, {"rnn_relu", rnn_relu}};
}

}  // namespace ckpt::onnx

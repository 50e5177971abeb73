#include "zoo/recurrent.h"

#include <tuple>

namespace zoo {

using core::Tensor;

CharLSTM::CharLSTM(const CharOptions& o)
    : embedding(o.vocabulary, o.embedding),
      lstm(o.embedding, o.hidden, {.num_layers = o.layers, .batch_first = true}),
      fc(o.hidden, o.vocabulary) {}

void CharLSTM::members(core::Members& m) {
  m.child("embedding", embedding).child("lstm", lstm).child("fc", fc);
}

Tensor CharLSTM::forward(const Tensor& tokens) {         // (n, t)
  Tensor states = std::get<0>(lstm(embedding(tokens)));  // (n, t, hidden)
  return fc(states);                                     // (n, t, vocabulary)
}

CharGRU::CharGRU(const CharOptions& o)
    : embedding(o.vocabulary, o.embedding),
      gru(o.embedding, o.hidden, {.num_layers = o.layers, .batch_first = true}),
      fc(o.hidden, o.vocabulary) {}

void CharGRU::members(core::Members& m) {
  m.child("embedding", embedding).child("gru", gru).child("fc", fc);
}

Tensor CharGRU::forward(const Tensor& tokens) {         // (n, t)
  Tensor states = std::get<0>(gru(embedding(tokens)));  // (n, t, hidden)
  return fc(states);                                    // (n, t, vocabulary)
}

BiLSTMClassifier::BiLSTMClassifier(const SequenceOptions& o)
    : lstm(o.inputs, o.hidden, {.num_layers = 2, .batch_first = true, .bidirectional = true}),
      fc(2 * o.hidden, o.outputs) {}

void BiLSTMClassifier::members(core::Members& m) {
  m.child("lstm", lstm).child("fc", fc);
}

Tensor BiLSTMClassifier::forward(const Tensor& x) {  // (n, t, inputs)
  Tensor states = std::get<0>(lstm(x));              // (n, t, 2 * hidden)
  return fc(states.mean({1}));                       // (n, outputs)
}

SimpleRNN::SimpleRNN(const SequenceOptions& o) : rnn(o.inputs, o.hidden), fc(o.hidden, o.outputs) {}

void SimpleRNN::members(core::Members& m) {
  m.child("rnn", rnn).child("fc", fc);
}

Tensor SimpleRNN::forward(const Tensor& x) {  // (t, n, inputs)
  return fc(std::get<1>(rnn(x)));             // (1, n, outputs)
}

StepRNN::StepRNN(const SequenceOptions& o)
    : rnn(o.inputs, o.hidden, {.num_layers = 2, .batch_first = true, .nonlinearity = "relu"}),
      fc(o.hidden, o.outputs) {}

void StepRNN::members(core::Members& m) {
  m.child("rnn", rnn).child("fc", fc);
}

Tensor StepRNN::forward(const Tensor& x) {  // (n, t, inputs)
  return fc(std::get<0>(rnn(x)));           // (n, t, outputs)
}

}  // namespace zoo

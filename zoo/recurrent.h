#pragma once
// Recurrent models: characters to characters, sequences to classes, and the plain networks of the tutorials.
// Thread safety: as core::Module. Use: zoo::CharLSTM net({.vocabulary = 76}); core::Tensor logits = net(tokens);

#include <cstdint>

#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/recurrent.h"

namespace zoo {

struct CharOptions {
  std::int64_t vocabulary = 65;
  std::int64_t embedding = 32;
  std::int64_t hidden = 64;
  std::int64_t layers = 1;
};

/// tokens (n, t), int64 -> logits of the next token (n, t, vocabulary). Starts from a zero state.
struct CharLSTM : core::ModuleOf<CharLSTM> {
  core::Embedding embedding;
  core::LSTM lstm;
  core::Linear fc;

  explicit CharLSTM(const CharOptions& o);
  CharLSTM() : CharLSTM(CharOptions()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens);
};

/// As CharLSTM; hidden is 48 and layers 2 unless said.
struct CharGRU : core::ModuleOf<CharGRU> {
  core::Embedding embedding;
  core::GRU gru;
  core::Linear fc;

  explicit CharGRU(const CharOptions& o);
  CharGRU() : CharGRU(CharOptions{.hidden = 48, .layers = 2}) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens);
};

struct SequenceOptions {
  std::int64_t inputs = 10;
  std::int64_t hidden = 5;
  std::int64_t outputs = 3;
};

/// Two bidirectional layers; the classifier reads the mean over time. (n, t, inputs) -> logits (n, outputs).
struct BiLSTMClassifier : core::ModuleOf<BiLSTMClassifier> {
  core::LSTM lstm;
  core::Linear fc;

  explicit BiLSTMClassifier(const SequenceOptions& o);
  BiLSTMClassifier() : BiLSTMClassifier(SequenceOptions{.inputs = 12, .hidden = 16, .outputs = 5}) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// Sequence first; the linear layer reads the last hidden state. (t, n, inputs) -> (1, n, outputs).
struct SimpleRNN : core::ModuleOf<SimpleRNN> {
  core::RNN rnn;
  core::Linear fc;

  explicit SimpleRNN(const SequenceOptions& o);
  SimpleRNN() : SimpleRNN(SequenceOptions()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// Two layers with ReLU; the linear layer reads every step. (n, t, inputs) -> (n, t, outputs).
struct StepRNN : core::ModuleOf<StepRNN> {
  core::RNN rnn;
  core::Linear fc;

  explicit StepRNN(const SequenceOptions& o);
  StepRNN() : StepRNN(SequenceOptions()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

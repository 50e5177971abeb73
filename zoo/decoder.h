#pragma once
// Continuing texts token by token: a Decoder remembers what its model made of the tokens so far (keys and values of
// attention, states of recurrent layers), so that the next token costs one position and not the whole text again.
// Thread safety: none. Use: zoo::Decoder decoder(*net); core::Tensor logits = decoder.next(tokens);  // (n, vocabulary)

#include <cstdint>
#include <tuple>
#include <vector>

#include "libcore/module/module.h"

namespace zoo {

/// What attention layers keep of the tokens they have seen.
struct DecoderCache {
  struct Layer {
    core::Tensor keys, values;  ///< (n, heads, room, d), of which the first `length` positions are filled
    std::int64_t length = 0;
  };
  std::vector<Layer> layers;
  std::vector<Layer> sources;  ///< of what an encoder read, once it was looked at
  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length; }
};

/// A model that takes two inputs, in the order in which its forward has them.
struct TwoInputs {
  virtual ~TwoInputs() = default;
  virtual core::Tensor with_second(const core::Tensor& first, const core::Tensor& second) = 0;
};

/// A model that reads one thing whole and writes a text about it.
struct EncoderDecoder : TwoInputs {
  /// What it reads -> states (n, s, width).
  virtual core::Tensor encoded(const core::Tensor& source) = 0;
  /// tokens (n, t), int64, which follow those in `cache` -> logits (n, t, tokens).
  virtual core::Tensor decoded(const core::Tensor& tokens, const core::Tensor& states, DecoderCache* cache) = 0;
};

class Decoder {
 public:
  /// For NanoGPT, GPT2LMHeadModel, LlamaForCausalLM, GPTNeoXForCausalLM, CharLSTM, CharGRU, and for an EncoderDecoder
  /// with what it reads as `source`; the model has to outlive it. Error(usage) for any other model.
  explicit Decoder(core::Module& model, const core::Tensor& source = {});

  /// Logits of the token behind `tokens` (n, t): (n, vocabulary). What a call before was given is not read again, so
  /// `tokens` begin with those. A model with a table of positions sees the last ones that it has positions for; from
  /// there on every call reads all of these, as each token moves to another position.
  core::Tensor next(const core::Tensor& tokens);

  /// The texts read so far, of which there are n, become those of these numbers, in this order: what is remembered of
  /// one can be gone on from several times. Error(index) for a number that is not there.
  void select_rows(const std::vector<std::int64_t>& rows);

  /// How many tokens the model sees at once; 0: any number.
  std::int64_t positions() const { return positions_; }

 private:
  core::Tensor read(const core::Tensor& tokens);

  core::Module& model_;
  std::int64_t positions_ = 0;
  std::int64_t read_ = 0;  ///< tokens that the memory stands for
  DecoderCache cache_;
  std::tuple<core::Tensor, core::Tensor> lstm_state_;
  core::Tensor gru_state_;
  core::Tensor states_;  ///< what an EncoderDecoder made of its source
};

}  // namespace zoo

#pragma once
// T5 under Hugging Face's names: an encoder that reads a text, and a decoder that writes about it; positions are biases
// of the scores by distance. Source: Raffel et al. 2019. Thread safety: as core::Module.
// Use: zoo::T5ForConditionalGeneration net({}); core::Tensor logits = net(tokens, written);

#include <cstdint>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

/// Those of the small model.
struct T5Options {
  std::int64_t vocab_size = 32128;
  std::int64_t d_model = 512;
  std::int64_t d_kv = 64;  ///< width of a head
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;
  std::int64_t num_decoder_layers = 6;
  std::int64_t num_heads = 8;
  std::int64_t buckets = 32;        ///< of distances
  std::int64_t max_distance = 128;  ///< from where on all distances are one
  double dropout = 0.1;
  double layer_norm_epsilon = 1e-6;
  std::string activation = "relu";
  bool gated = false;
  bool scale_outputs = true;  ///< what the head reads is divided by the root of its width
  bool own_head = false;      ///< else its weight is the table of tokens
};

namespace t5 {

struct T5LayerNorm : core::ModuleOf<T5LayerNorm> {
  core::RMSNorm norm;
  explicit T5LayerNorm(const T5Options& o) : norm({o.d_model}, {.eps = o.layer_norm_epsilon}) {}
  void members(core::Members& m) override { norm.members(m); }
  core::Tensor forward(const core::Tensor& x) const { return norm.forward(x); }
};

struct T5Stack : core::ModuleOf<T5Stack> {
  core::Embedding embed_tokens;
  core::ModuleList block;
  T5LayerNorm final_layer_norm;
  core::Dropout dropout;
  std::int64_t buckets, max_distance;
  bool writes;

  T5Stack(const T5Options& o, bool is_decoder);
  void members(core::Members& m) override;
  /// tokens (n, t), int64 -> states (n, t, d_model). A decoder sees no later tokens, those in `cache` and `states` (n,
  /// s, d_model), which are undefined for an encoder.
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& states = {}, DecoderCache* cache = nullptr);

 private:
  core::Tensor bias(std::int64_t before, std::int64_t now, core::DType dtype);
};

}  // namespace t5

struct T5ForConditionalGeneration : core::ModuleOf<T5ForConditionalGeneration>, EncoderDecoder {
  core::Embedding shared;
  t5::T5Stack encoder, decoder;
  core::Linear lm_head;
  double scale;

  explicit T5ForConditionalGeneration(const T5Options& o);
  void members(core::Members& m) override {
    m.child("shared", shared).child("encoder", encoder).child("decoder", decoder).child("lm_head", lm_head);
  }
  /// text (n, s) and what is written so far (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& text, const core::Tensor& written) {
    return decoded(written, encoded(text), nullptr);
  }
  core::Tensor encoded(const core::Tensor& text) override { return encoder(text); }
  core::Tensor decoded(const core::Tensor& written, const core::Tensor& states, DecoderCache* cache) override;
  core::Tensor with_second(const core::Tensor& text, const core::Tensor& written) override {
    return (*this)(text, written);
  }
};

/// The encoder alone.
struct T5EncoderModel : core::ModuleOf<T5EncoderModel> {
  core::Embedding shared;
  t5::T5Stack encoder;

  explicit T5EncoderModel(const T5Options& o);
  void members(core::Members& m) override { m.child("shared", shared).child("encoder", encoder); }
  /// text (n, s), int64 -> states (n, s, d_model).
  core::Tensor forward(const core::Tensor& text) { return encoder(text); }
};

}  // namespace zoo

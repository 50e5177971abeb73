#pragma once
// A Llama-style decoder under Hugging Face's names: rotary positions, grouped queries, RMS norms, gated SiLU.
// Source: Touvron et al. 2023. Thread safety: as core::Module.
// Use: zoo::LlamaForCausalLM net({.vocab_size = 32000}); core::Tensor logits = net(tokens);

#include <cstdint>

#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

struct LlamaOptions {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 32;  ///< each serves attention_heads / key_value_heads queries
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
};

namespace llama {

/// Prints its eps alone.
struct LlamaRMSNorm : core::ModuleOf<LlamaRMSNorm> {
  core::RMSNorm norm;
  LlamaRMSNorm(std::int64_t width, double eps) : norm({width}, {.eps = eps}) {}
  void members(core::Members& m) override { norm.members(m); }
  std::string extra_repr() const override;
  core::Tensor forward(const core::Tensor& x) const { return norm.forward(x); }
};

/// The angles by which queries and keys are turned.
struct LlamaRotaryEmbedding : core::ModuleOf<LlamaRotaryEmbedding> {
  core::Tensor inv_freq, original_inv_freq;  ///< (d / 2), not in files
  explicit LlamaRotaryEmbedding(const LlamaOptions& o);
  void members(core::Members& m) override {
    m.buffer("inv_freq", inv_freq, false).buffer("original_inv_freq", original_inv_freq, false);
  }
};

}  // namespace llama

struct LlamaModel : core::ModuleOf<LlamaModel> {
  core::Embedding embed_tokens;
  core::ModuleList layers;
  llama::LlamaRMSNorm norm;
  llama::LlamaRotaryEmbedding rotary_emb;

  explicit LlamaModel(const LlamaOptions& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64 -> states (n, t, hidden_size).
  core::Tensor forward(const core::Tensor& tokens) { return run(tokens, nullptr); }
  /// The same for tokens that follow those in the cache, to which they are added.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return run(tokens, &cache); }

 private:
  core::Tensor run(const core::Tensor& tokens, DecoderCache* cache);
};

struct LlamaForCausalLM : core::ModuleOf<LlamaForCausalLM> {
  LlamaModel model;
  core::Linear lm_head;

  explicit LlamaForCausalLM(const LlamaOptions& o);
  void members(core::Members& m) override { m.child("model", model).child("lm_head", lm_head); }
  /// tokens (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& tokens) { return lm_head(model(tokens)); }
  /// The same for tokens that follow those in the cache.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return lm_head(model(tokens, cache)); }
};

}  // namespace zoo

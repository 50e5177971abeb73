#pragma once
// A Llama-style decoder under Hugging Face's names: rotary positions, grouped queries, RMS norms, gated SiLU; and those
// that differ from it in details alone: Mistral, Qwen2, Qwen3, Phi-3, Gemma 2. Source: Touvron et al. 2023. Thread
// safety: as core::Module. Use: zoo::LlamaForCausalLM net({.vocab_size = 32000}); core::Tensor logits = net(tokens);

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

/// How the angles of rotary positions are made.
struct RotaryOptions {
  double theta = 10000;
  double part = 1;  ///< share of a head's width that is turned
  /// "default"; "linear": all angles divided by factor; "llama3": the slow ones.
  std::string type = "default";
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;      ///< of "llama3"
  std::int64_t original_max_position_embeddings = 8192;  ///< of "llama3"
};

/// Those of Llama; Mistral, Qwen2, Qwen3, Phi-3 and Gemma 2 differ in what is below `kind`.
struct LlamaOptions {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 32;  ///< each serves attention_heads / key_value_heads queries
  std::int64_t head_dim = 0;              ///< 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  RotaryOptions rotary = {};
  bool tie_word_embeddings = false;
  std::string hidden_act = "silu";
  std::int64_t pad_token_id = -1;  ///< whose vector begins as 0; negative: none
  std::string kind = "Llama";      ///< what the names of classes begin with
  bool qkv_bias = false;
  bool output_bias = false;  ///< of attention
  bool mlp_bias = false;
  bool head_norm = false;  ///< queries and keys of each head are normalised
  bool fused = false;      ///< one matrix for queries, keys and values, one for gate and up
  /// How many positions each layer's tokens see, themselves among them; 0: all before. Empty: 0 for every layer.
  std::vector<std::int64_t> windows = {};
  double resid_pdrop = 0;  ///< of fused models, which have dropouts
  /// As Gemma: vectors of tokens are multiplied by the root of their width, norms by 1 + weight, and what attention and
  /// MLP give is normalised too.
  bool gemma = false;
  double attention_scale = 0;  ///< of the scores; 0: 1 / sqrt(head width)
  double attention_cap = 0;    ///< scores stay between -cap and cap; 0: any
  double logit_cap = 0;        ///< logits do; 0: any

  std::int64_t head_width() const { return head_dim != 0 ? head_dim : hidden_size / num_attention_heads; }
};

namespace llama {

/// Prints its eps alone.
struct LlamaRMSNorm : core::ModuleOf<LlamaRMSNorm> {
  std::string kind;
  bool about_one;  ///< multiplies by 1 + weight
  core::RMSNorm norm;
  LlamaRMSNorm(std::int64_t width, const LlamaOptions& o);
  std::string class_name() const override { return kind + "RMSNorm"; }
  void members(core::Members& m) override { norm.members(m); }
  std::string extra_repr() const override;
  core::Tensor forward(const core::Tensor& x) const;
};

/// Multiplied by the root of their width where the options say so.
struct LlamaEmbedding : core::ModuleOf<LlamaEmbedding, core::Embedding> {
  bool scaled;
  explicit LlamaEmbedding(const LlamaOptions& o);
  std::string class_name() const override { return scaled ? "Gemma2TextScaledWordEmbedding" : "Embedding"; }
  core::Tensor forward(const core::Tensor& tokens) const;
};

/// The angles by which queries and keys are turned.
struct LlamaRotaryEmbedding : core::ModuleOf<LlamaRotaryEmbedding> {
  std::string kind;
  core::Tensor inv_freq, original_inv_freq;  ///< (d / 2), not in files
  LlamaRotaryEmbedding(const RotaryOptions& o, std::int64_t head_width, std::string kind_name);
  std::string class_name() const override { return kind + "RotaryEmbedding"; }
  void members(core::Members& m) override {
    m.buffer("inv_freq", inv_freq, false).buffer("original_inv_freq", original_inv_freq, false);
  }
};

/// Cosines and sines of positions, (t, d) each.
struct Angles {
  core::Tensor cos, sin;
};
Angles angles_of(const LlamaRotaryEmbedding& rotary, const core::Tensor& positions, core::DType dtype);
/// x (n, heads, t, d), whose first values, as many as the angles have, are turned in pairs (i, i + d / 2).
core::Tensor turned(const core::Tensor& x, const Angles& angles);

}  // namespace llama

struct LlamaModel : core::ModuleOf<LlamaModel> {
  llama::LlamaEmbedding embed_tokens;
  core::ModuleList layers;
  llama::LlamaRMSNorm norm;
  llama::LlamaRotaryEmbedding rotary_emb;
  std::string kind;

  explicit LlamaModel(const LlamaOptions& o);
  std::string class_name() const override { return kind + "Model"; }
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
  double logit_cap;

  explicit LlamaForCausalLM(const LlamaOptions& o);
  std::string class_name() const override { return model.kind + "ForCausalLM"; }
  void members(core::Members& m) override { m.child("model", model).child("lm_head", lm_head); }
  /// tokens (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& tokens) { return logits_of(model(tokens)); }
  /// The same for tokens that follow those in the cache.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return logits_of(model(tokens, cache)); }

 private:
  core::Tensor logits_of(const core::Tensor& states);
};

}  // namespace zoo

#pragma once
// GPT-NeoX under Hugging Face's names, of which Pythia's models are: attention and MLP side by side, rotary positions
// on a part of each head. Source: Black et al. 2022. Thread safety: as core::Module. Use: zoo::GPTNeoXForCausalLM
// net({.vocab_size = 50304}); core::Tensor logits = net(tokens);

#include <cstdint>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"
#include "zoo/llama.h"

namespace zoo {

struct GPTNeoXOptions {
  std::int64_t vocab_size = 50432;
  std::int64_t hidden_size = 6144;
  std::int64_t num_hidden_layers = 44;
  std::int64_t num_attention_heads = 64;
  std::int64_t intermediate_size = 24576;
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-5;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool attention_bias = true;
  bool use_parallel_residual = true;  ///< attention and MLP read the same states, and both are added
  bool tie_word_embeddings = false;
  RotaryOptions rotary = {.part = 0.25};
};

struct GPTNeoXModel : core::ModuleOf<GPTNeoXModel> {
  core::Embedding embed_in;
  core::Dropout emb_dropout;
  core::ModuleList layers;
  core::LayerNorm final_layer_norm;
  llama::LlamaRotaryEmbedding rotary_emb;

  explicit GPTNeoXModel(const GPTNeoXOptions& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64 -> states (n, t, hidden_size).
  core::Tensor forward(const core::Tensor& tokens) { return run(tokens, nullptr); }
  /// The same for tokens that follow those in the cache, to which they are added.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return run(tokens, &cache); }

 private:
  core::Tensor run(const core::Tensor& tokens, DecoderCache* cache);
};

struct GPTNeoXForCausalLM : core::ModuleOf<GPTNeoXForCausalLM> {
  GPTNeoXModel gpt_neox;
  core::Linear lm_head;

  explicit GPTNeoXForCausalLM(const GPTNeoXOptions& o);
  void members(core::Members& m) override { m.child("gpt_neox", gpt_neox).child("lm_head", lm_head); }
  /// tokens (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& tokens) { return lm_head(gpt_neox(tokens)); }
  /// The same for tokens that follow those in the cache.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return lm_head(gpt_neox(tokens, cache)); }
};

}  // namespace zoo

#pragma once
// GPT-2 under Hugging Face's names: matrices of attention and MLP are stored (in, out). The same network under
// nanoGPT's names is nanogpt.h. Source: Radford et al. 2019.
// Thread safety: as core::Module. Use: zoo::GPT2LMHeadModel net({}); core::Tensor logits = net(tokens);

#include <cstdint>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

struct GPT2Model : core::ModuleOf<GPT2Model> {
  /// Those of the model with 124 M parameters.
  struct Options {
    std::int64_t vocab_size = 50257;
    std::int64_t n_positions = 1024;
    std::int64_t n_embd = 768;
    std::int64_t n_layer = 12;
    std::int64_t n_head = 12;
    std::int64_t n_inner = 0;  ///< width inside the MLP; 0: four times n_embd
    std::string activation = "gelu_new";
    double layer_norm_epsilon = 1e-5;
    double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
    bool scale_attn_weights = true;                ///< divide the scores by the root of a head's width
    bool scale_attn_by_inverse_layer_idx = false;  ///< and by the number of the layer, from 1
    bool tie_word_embeddings = true;
  };
  core::Embedding wte, wpe;
  core::Dropout drop;
  core::ModuleList h;
  core::LayerNorm ln_f;

  explicit GPT2Model(const Options& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64, t at most n_positions -> states (n, t, n_embd).
  core::Tensor forward(const core::Tensor& tokens) { return run(tokens, nullptr); }
  /// The same for tokens that follow those in the cache, to which they are added: at most n_positions in all.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache) { return run(tokens, &cache); }

 private:
  core::Tensor run(const core::Tensor& tokens, DecoderCache* cache);
};

struct GPT2LMHeadModel : core::ModuleOf<GPT2LMHeadModel> {
  using Options = GPT2Model::Options;
  GPT2Model transformer;
  core::Linear lm_head;  ///< its weight is that of transformer.wte, unless they are not tied

  explicit GPT2LMHeadModel(const Options& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& tokens);
  /// The same for tokens that follow those in the cache.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache);
};

}  // namespace zoo

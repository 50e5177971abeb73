#pragma once
// GPT under nanoGPT's names: the network of gpt2.h with matrices stored (out, in), the exact GELU unless asked
// otherwise, and a mode without biases. Source: Radford et al. 2019.
// Thread safety: as core::Module. Use: zoo::NanoGPT net({.block_size = 256, .vocab_size = 65}); auto logits =
// net(tokens);

#include <cstdint>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/tensor/tensor.h"
#include "zoo/decoder.h"

namespace zoo {

/// Those of the model with 124 M parameters.
struct NanoGPTOptions {
  std::int64_t block_size = 1024;
  std::int64_t vocab_size = 50304;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_embd = 768;
  double dropout = 0;
  bool bias = true;
  core::GeluForm gelu = core::GeluForm::exact;
};

namespace nanogpt {

/// Layer norm over the last dimension whose bias can be left out. Prints as "LayerNorm()".
struct LayerNorm : core::ModuleOf<LayerNorm> {
  core::Parameter weight, bias;
  LayerNorm(std::int64_t width, bool with_bias);
  void members(core::Members& m) override { m.parameter("weight", weight).parameter("bias", bias); }
  core::Tensor forward(const core::Tensor& x) const;
};

/// The part under "transformer"; prints as a ModuleDict.
struct Parts : core::ModuleOf<Parts> {
  core::Embedding wte, wpe;
  core::Dropout drop;
  core::ModuleList h;
  LayerNorm ln_f;
  explicit Parts(const NanoGPTOptions& o);
  std::string class_name() const override { return "ModuleDict"; }
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens, DecoderCache* cache = nullptr);
};

}  // namespace nanogpt

struct NanoGPT : core::ModuleOf<NanoGPT> {
  using Options = NanoGPTOptions;
  std::int64_t block_size;
  nanogpt::Parts transformer;
  core::Linear lm_head;  ///< its weight is that of transformer.wte

  explicit NanoGPT(const Options& o);
  std::string class_name() const override { return "GPT"; }
  void members(core::Members& m) override;
  /// tokens (n, t), int64, t at most block_size -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& tokens);
  /// The same for tokens that follow those in the cache, to which they are added: at most block_size in all.
  core::Tensor forward(const core::Tensor& tokens, DecoderCache& cache);

  struct Sampling {
    std::int64_t count = 100;  ///< tokens to add
    double temperature = 1;    ///< below 1: the likely ones more often
    std::int64_t top_k = 0;    ///< draw from the k likeliest alone; 0: from all
  };
  /// tokens (1, t) followed by what the model draws, from the default generator.
  core::Tensor generate(core::Tensor tokens, const Sampling& sampling);
};

}  // namespace zoo

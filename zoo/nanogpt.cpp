#include "zoo/nanogpt.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace nanogpt {

using Options = NanoGPT::Options;

LayerNorm::LayerNorm(std::int64_t width, bool with_bias) : weight(core::ones({width})) {
  if (with_bias) bias = core::Parameter(core::zeros({width}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return core::layer_norm(x, weight.sizes(), {.weight = weight, .bias = bias});
}

/// (n, t, width) -> the same.
struct CausalSelfAttention : core::ModuleOf<CausalSelfAttention> {
  std::int64_t heads;
  Linear c_attn, c_proj;
  core::Dropout attn_dropout, resid_dropout;

  explicit CausalSelfAttention(const Options& o)
      : heads(o.n_head),
        c_attn(o.n_embd, 3 * o.n_embd, {.bias = o.bias}),
        c_proj(o.n_embd, o.n_embd, {.bias = o.bias}),
        attn_dropout(o.dropout),
        resid_dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("c_attn", c_attn).child("c_proj", c_proj);
    m.child("attn_dropout", attn_dropout).child("resid_dropout", resid_dropout);
  }
  Tensor forward(const Tensor& x, DecoderCache::Layer* cache = nullptr) {
    std::vector<Tensor> qkv = c_attn(x).split(x.size(2), 2);  // 3 of (n, t, width)
    for (Tensor& part : qkv) part = detail::split_heads(part, heads);
    Tensor mixed =
        detail::causal_attention({qkv[0], qkv[1], qkv[2]}, {.dropout = is_training() ? attn_dropout.p : 0.0}, cache);
    return resid_dropout(c_proj(detail::join_heads(mixed)));
  }
};

struct MLP : core::ModuleOf<MLP> {
  Linear c_fc;
  core::GELU gelu;
  Linear c_proj;
  core::Dropout dropout;

  explicit MLP(const Options& o)
      : c_fc(o.n_embd, 4 * o.n_embd, {.bias = o.bias}),
        gelu(o.gelu),
        c_proj(4 * o.n_embd, o.n_embd, {.bias = o.bias}),
        dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("c_fc", c_fc).child("gelu", gelu).child("c_proj", c_proj).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) { return dropout(c_proj(gelu(c_fc(x)))); }
};

struct Block : core::ModuleOf<Block> {
  LayerNorm ln_1;
  CausalSelfAttention attn;
  LayerNorm ln_2;
  MLP mlp;

  explicit Block(const Options& o) : ln_1(o.n_embd, o.bias), attn(o), ln_2(o.n_embd, o.bias), mlp(o) {}
  void members(core::Members& m) override {
    m.child("ln_1", ln_1).child("attn", attn).child("ln_2", ln_2).child("mlp", mlp);
  }
  Tensor forward(const Tensor& x, DecoderCache::Layer* cache = nullptr) {
    Tensor y = x + attn(ln_1(x), cache);
    return y + mlp(ln_2(y));
  }
};

Parts::Parts(const Options& o)
    : wte(o.vocab_size, o.n_embd), wpe(o.block_size, o.n_embd), drop(o.dropout), ln_f(o.n_embd, o.bias) {
  for (std::int64_t i = 0; i < o.n_layer; ++i) h.push_back(Block(o));
}

void Parts::members(core::Members& m) {
  m.child("wte", wte).child("wpe", wpe).child("drop", drop).child("h", h).child("ln_f", ln_f);
}

Tensor Parts::forward(const Tensor& tokens, DecoderCache* cache) {  // (n, t)
  const std::int64_t start = cache == nullptr ? 0 : cache->length();
  Tensor x = drop(wte(tokens) + wpe(detail::positions(tokens, start)));  // (n, t, width)
  std::size_t layer = 0;
  for (const auto& block : h) {  // (n, t, width)
    x = cache == nullptr ? block.second->call(x)
                         : static_cast<Block&>(*block.second)(x, detail::layer_of(cache, layer++));
  }
  return ln_f(x);
}

}  // namespace nanogpt

NanoGPT::NanoGPT(const Options& o)
    : block_size(o.block_size), transformer(o), lm_head(o.n_embd, o.vocab_size, {.bias = false}) {
  transformer.wte.weight = lm_head.weight;
  detail::init_language(*this, 0.02);
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(o.n_layer));
  for (const auto& [name, parameter] : named_parameters()) {
    if (name.ends_with("c_proj.weight")) core::init::normal_(parameter, 0, residual);
  }
}

void NanoGPT::members(core::Members& m) {
  m.child("transformer", transformer).child("lm_head", lm_head);
}

Tensor NanoGPT::forward(const Tensor& tokens) {
  return lm_head(transformer(tokens));
}

Tensor NanoGPT::forward(const Tensor& tokens, DecoderCache& cache) {
  return lm_head(transformer(tokens, &cache));
}

Tensor NanoGPT::generate(Tensor tokens, const Sampling& sampling) {
  core::NoGradGuard no_grad;
  Decoder decoder(*this);
  for (std::int64_t i = 0; i < sampling.count; ++i) {
    Tensor logits = decoder.next(tokens) / sampling.temperature;  // (1, vocabulary)
    if (sampling.top_k > 0) {
      const std::int64_t k = std::min(sampling.top_k, logits.size(1));
      Tensor least = core::topk(logits, k).values.slice(1, k - 1);  // (1, 1)
      logits = core::masked_fill(logits, core::lt(logits, least), -std::numeric_limits<double>::infinity());
    }
    tokens = core::cat({tokens, core::multinomial(core::softmax(logits, -1), {.num_samples = 1})}, 1);
  }
  return tokens;
}

}  // namespace zoo

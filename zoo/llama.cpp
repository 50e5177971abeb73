#include "zoo/llama.h"

#include <cmath>
#include <vector>

#include "libcore/base/text.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace llama {

std::string LlamaRMSNorm::extra_repr() const {
  return "(" + std::to_string(norm.normalized_shape[0]) + ",), eps=" + core::python_float(*norm.options.eps);
}

LlamaRotaryEmbedding::LlamaRotaryEmbedding(const LlamaOptions& o) {
  const std::int64_t d = o.hidden_size / o.num_attention_heads;
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < d; i += 2) {
    frequencies.push_back(1 /
                          std::pow(static_cast<float>(o.rope_theta), static_cast<float>(i) / static_cast<float>(d)));
  }
  inv_freq = core::from_values(frequencies);
  original_inv_freq = inv_freq.clone();
}

/// Cosines and sines of the positions, (t, d) each.
struct Angles {
  Tensor cos, sin;
};

/// Of positions (t).
Angles angles_of(const LlamaRotaryEmbedding& rotary, const Tensor& positions, core::DType dtype) {
  Tensor t = positions.to(core::DType::f32);
  Tensor half = core::outer(t, rotary.inv_freq.to(positions.device(), core::DType::f32));  // (t, d / 2)
  Tensor angles = core::cat({half, half}, -1);
  return {core::cos(angles).to(dtype), core::sin(angles).to(dtype)};
}

/// x (n, heads, t, d), each pair (i, i + d / 2) turned by its angle.
Tensor turned(const Tensor& x, const Angles& angles) {
  std::vector<Tensor> halves = x.chunk(2, -1);
  return x * angles.cos + core::cat({halves[1].neg(), halves[0]}, -1) * angles.sin;
}

struct LlamaAttention : core::ModuleOf<LlamaAttention> {
  std::int64_t heads, groups;
  Linear q_proj, k_proj, v_proj, o_proj;

  explicit LlamaAttention(const LlamaOptions& o)
      : heads(o.num_attention_heads),
        groups(o.num_key_value_heads),
        q_proj(o.hidden_size, o.hidden_size, {.bias = false}),
        k_proj(o.hidden_size, o.hidden_size / heads * groups, {.bias = false}),
        v_proj(o.hidden_size, o.hidden_size / heads * groups, {.bias = false}),
        o_proj(o.hidden_size, o.hidden_size, {.bias = false}) {}
  void members(core::Members& m) override {
    m.child("q_proj", q_proj).child("k_proj", k_proj).child("v_proj", v_proj).child("o_proj", o_proj);
  }
  Tensor forward(const Tensor& x, const Angles& angles, DecoderCache::Layer* cache) {
    Tensor q = turned(detail::split_heads(q_proj(x), heads), angles);   // (n, heads, t, d)
    Tensor k = turned(detail::split_heads(k_proj(x), groups), angles);  // (n, groups, t, d)
    Tensor v = detail::split_heads(v_proj(x), groups);                  // (n, groups, t, d)
    if (groups != heads) {
      k = core::repeat_interleave(k, heads / groups, 1);
      v = core::repeat_interleave(v, heads / groups, 1);
    }
    return o_proj(detail::join_heads(detail::causal_attention({q, k, v}, 0, cache)));
  }
};

struct LlamaMLP : core::ModuleOf<LlamaMLP> {
  Linear gate_proj, up_proj, down_proj;
  detail::SiLUActivation act_fn;

  explicit LlamaMLP(const LlamaOptions& o)
      : gate_proj(o.hidden_size, o.intermediate_size, {.bias = false}),
        up_proj(o.hidden_size, o.intermediate_size, {.bias = false}),
        down_proj(o.intermediate_size, o.hidden_size, {.bias = false}) {}
  void members(core::Members& m) override {
    m.child("gate_proj", gate_proj).child("up_proj", up_proj).child("down_proj", down_proj).child("act_fn", act_fn);
  }
  Tensor forward(const Tensor& x) { return down_proj(act_fn(gate_proj(x)) * up_proj(x)); }
};

/// (n, t, hidden) -> the same.
struct LlamaDecoderLayer : core::ModuleOf<LlamaDecoderLayer> {
  LlamaAttention self_attn;
  LlamaMLP mlp;
  LlamaRMSNorm input_layernorm, post_attention_layernorm;

  explicit LlamaDecoderLayer(const LlamaOptions& o)
      : self_attn(o),
        mlp(o),
        input_layernorm(o.hidden_size, o.rms_norm_eps),
        post_attention_layernorm(o.hidden_size, o.rms_norm_eps) {}
  void members(core::Members& m) override {
    m.child("self_attn", self_attn).child("mlp", mlp).child("input_layernorm", input_layernorm);
    m.child("post_attention_layernorm", post_attention_layernorm);
  }
  Tensor forward(const Tensor& x, const Angles& angles, DecoderCache::Layer* cache) {
    Tensor h = x + self_attn(input_layernorm(x), angles, cache);
    return h + mlp(post_attention_layernorm(h));
  }
};

}  // namespace llama

LlamaModel::LlamaModel(const LlamaOptions& o)
    : embed_tokens(o.vocab_size, o.hidden_size), norm(o.hidden_size, o.rms_norm_eps), rotary_emb(o) {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layers.push_back(llama::LlamaDecoderLayer(o));
  detail::init_language(*this, 0.02);
}

void LlamaModel::members(core::Members& m) {
  m.child("embed_tokens", embed_tokens).child("layers", layers).child("norm", norm).child("rotary_emb", rotary_emb);
}

Tensor LlamaModel::run(const Tensor& tokens, DecoderCache* cache) {  // (n, t)
  Tensor x = embed_tokens(tokens);                                   // (n, t, hidden)
  const Tensor positions = detail::positions(tokens, cache == nullptr ? 0 : cache->length());
  const llama::Angles angles = llama::angles_of(rotary_emb, positions, x.dtype());
  std::size_t at = 0;
  for (const auto& layer : layers) {
    x = static_cast<llama::LlamaDecoderLayer&>(*layer.second)(x, angles, detail::layer_of(cache, at++));
  }
  return norm(x);
}

LlamaForCausalLM::LlamaForCausalLM(const LlamaOptions& o)
    : model(o), lm_head(o.hidden_size, o.vocab_size, {.bias = false}) {
  if (o.tie_word_embeddings) {
    lm_head.weight = model.embed_tokens.weight;
  } else {
    detail::init_language(lm_head, 0.02);
  }
}

}  // namespace zoo

#include "zoo/gpt_neox.h"

#include <memory>
#include <vector>

#include "libcore/ops/pointwise.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace gpt_neox {

/// (n, t, hidden) -> the same.
struct GPTNeoXAttention : core::ModuleOf<GPTNeoXAttention> {
  std::int64_t heads;
  double dropout;
  Linear query_key_value, dense;

  explicit GPTNeoXAttention(const GPTNeoXOptions& o)
      : heads(o.num_attention_heads),
        dropout(o.attention_dropout),
        query_key_value(o.hidden_size, 3 * o.hidden_size, {.bias = o.attention_bias}),
        dense(o.hidden_size, o.hidden_size, {.bias = o.attention_bias}) {}
  void members(core::Members& m) override { m.child("query_key_value", query_key_value).child("dense", dense); }
  Tensor forward(const Tensor& x, const llama::Angles& angles, DecoderCache::Layer* cache) {
    // Each head has its query, key and value beside each other.
    std::vector<Tensor> qkv = detail::split_heads(query_key_value(x), heads).chunk(3, -1);  // (n, heads, t, d)
    const detail::Heads parts{llama::turned(qkv[0], angles), llama::turned(qkv[1], angles), qkv[2]};
    return dense(
        detail::join_heads(detail::causal_attention(parts, {.dropout = is_training() ? dropout : 0.0}, cache)));
  }
};

struct GPTNeoXMLP : core::ModuleOf<GPTNeoXMLP> {
  Linear dense_h_to_4h, dense_4h_to_h;
  std::shared_ptr<core::Module> act;

  explicit GPTNeoXMLP(const GPTNeoXOptions& o)
      : dense_h_to_4h(o.hidden_size, o.intermediate_size),
        dense_4h_to_h(o.intermediate_size, o.hidden_size),
        act(detail::text_activation(o.hidden_act)) {}
  void members(core::Members& m) override {
    m.child("dense_h_to_4h", dense_h_to_4h).child("dense_4h_to_h", dense_4h_to_h).child("act", act);
  }
  Tensor forward(const Tensor& x) { return dense_4h_to_h(act->call(dense_h_to_4h(x))); }
};

/// (n, t, hidden) -> the same.
struct GPTNeoXLayer : core::ModuleOf<GPTNeoXLayer> {
  bool parallel;
  core::LayerNorm input_layernorm, post_attention_layernorm;
  core::Dropout post_attention_dropout, post_mlp_dropout;
  GPTNeoXAttention attention;
  GPTNeoXMLP mlp;

  explicit GPTNeoXLayer(const GPTNeoXOptions& o)
      : parallel(o.use_parallel_residual),
        input_layernorm({o.hidden_size}, {.eps = o.layer_norm_eps}),
        post_attention_layernorm({o.hidden_size}, {.eps = o.layer_norm_eps}),
        post_attention_dropout(o.hidden_dropout),
        post_mlp_dropout(o.hidden_dropout),
        attention(o),
        mlp(o) {}
  void members(core::Members& m) override {
    m.child("input_layernorm", input_layernorm).child("post_attention_layernorm", post_attention_layernorm);
    m.child("post_attention_dropout", post_attention_dropout).child("post_mlp_dropout", post_mlp_dropout);
    m.child("attention", attention).child("mlp", mlp);
  }
  Tensor forward(const Tensor& x, const llama::Angles& angles, DecoderCache::Layer* cache) {
    Tensor h = post_attention_dropout(attention(input_layernorm(x), angles, cache)) + x;
    return post_mlp_dropout(mlp(post_attention_layernorm(parallel ? x : h))) + h;
  }
};

}  // namespace gpt_neox

GPTNeoXModel::GPTNeoXModel(const GPTNeoXOptions& o)
    : embed_in(o.vocab_size, o.hidden_size),
      emb_dropout(o.hidden_dropout),
      final_layer_norm({o.hidden_size}, {.eps = o.layer_norm_eps}),
      rotary_emb(o.rotary, o.hidden_size / o.num_attention_heads, "GPTNeoX") {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layers.push_back(gpt_neox::GPTNeoXLayer(o));
  detail::init_language(*this, 0.02);
}

void GPTNeoXModel::members(core::Members& m) {
  m.child("embed_in", embed_in).child("emb_dropout", emb_dropout).child("layers", layers);
  m.child("final_layer_norm", final_layer_norm).child("rotary_emb", rotary_emb);
}

Tensor GPTNeoXModel::run(const Tensor& tokens, DecoderCache* cache) {  // (n, t)
  Tensor x = emb_dropout(embed_in(tokens));                            // (n, t, hidden)
  const Tensor positions = detail::positions(tokens, cache == nullptr ? 0 : cache->length());
  const llama::Angles angles = llama::angles_of(rotary_emb, positions, x.dtype());
  std::size_t at = 0;
  for (const auto& layer : layers) {
    x = static_cast<gpt_neox::GPTNeoXLayer&>(*layer.second)(x, angles, detail::layer_of(cache, at++));
  }
  return final_layer_norm(x);
}

GPTNeoXForCausalLM::GPTNeoXForCausalLM(const GPTNeoXOptions& o)
    : gpt_neox(o), lm_head(o.hidden_size, o.vocab_size, {.bias = false}) {
  if (o.tie_word_embeddings) {
    lm_head.weight = gpt_neox.embed_in.weight;
  } else {
    detail::init_language(lm_head, 0.02);
  }
}

}  // namespace zoo

#include "zoo/llama.h"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "libcore/base/text.h"
#include "libcore/module/dropout.h"
#include "libcore/module/init.h"
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

LlamaRMSNorm::LlamaRMSNorm(std::int64_t width, const LlamaOptions& o)
    : kind(o.kind), about_one(o.gemma), norm({width}, {.eps = o.rms_norm_eps}) {
  if (about_one) core::init::zeros_(norm.weight);
}

Tensor LlamaRMSNorm::forward(const Tensor& x) const {
  if (!about_one) return norm.forward(x);
  const core::DType wide = x.dtype() == core::DType::f64 ? x.dtype() : core::DType::f32;
  const Tensor scale = norm.weight.to(wide) + 1;
  return core::rms_norm(x.to(wide), norm.normalized_shape, {.weight = scale, .eps = norm.options.eps}).to(x.dtype());
}

LlamaEmbedding::LlamaEmbedding(const LlamaOptions& o)
    : ModuleOf(o.vocab_size, o.hidden_size, detail::padded_by(o.pad_token_id)), scaled(o.gemma) {}

Tensor LlamaEmbedding::forward(const Tensor& tokens) const {
  Tensor x = core::Embedding::forward(tokens);
  if (!scaled) return x;
  // The factor is rounded to the dtype of the weights, as the reference has it.
  const double root = std::sqrt(static_cast<double>(embedding_dim));
  return x * core::full({}, root, {.dtype = x.dtype(), .device = x.device()});
}

std::string LlamaRMSNorm::extra_repr() const {
  return "(" + std::to_string(norm.normalized_shape[0]) + ",), eps=" + core::python_float(*norm.options.eps);
}

namespace {

/// As "llama3" scales: angles that turn slowly are divided, those in between in part. In float, as the reference does.
float scaled_as_llama3(float frequency, const RotaryOptions& o) {
  const auto factor = static_cast<float>(o.factor), low = static_cast<float>(o.low_freq_factor);
  const auto high = static_cast<float>(o.high_freq_factor);
  const auto length = static_cast<double>(o.original_max_position_embeddings);
  const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wave < static_cast<float>(length / o.high_freq_factor)) return frequency;
  if (wave > static_cast<float>(length / o.low_freq_factor)) return frequency / factor;
  const float smooth = (static_cast<float>(length) / wave - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

LlamaRotaryEmbedding::LlamaRotaryEmbedding(const RotaryOptions& o, std::int64_t head_width, std::string kind_name)
    : kind(std::move(kind_name)) {
  const auto d = static_cast<std::int64_t>(static_cast<double>(head_width) * o.part);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < d; i += 2) {
    float frequency = 1 / std::pow(static_cast<float>(o.theta), static_cast<float>(i) / static_cast<float>(d));
    if (o.type == "linear") frequency /= static_cast<float>(o.factor);
    if (o.type == "llama3") frequency = scaled_as_llama3(frequency, o);
    frequencies.push_back(frequency);
  }
  inv_freq = core::from_values(frequencies);
  original_inv_freq = inv_freq.clone();
}

Angles angles_of(const LlamaRotaryEmbedding& rotary, const Tensor& positions, core::DType dtype) {
  Tensor t = positions.to(core::DType::f32);
  Tensor half = core::outer(t, rotary.inv_freq.to(positions.device(), core::DType::f32));  // (t, d / 2)
  Tensor angles = core::cat({half, half}, -1);
  return {core::cos(angles).to(dtype), core::sin(angles).to(dtype)};
}

Tensor turned(const Tensor& x, const Angles& angles) {
  const std::int64_t d = angles.cos.size(-1), all = x.size(-1);
  if (d < all) return core::cat({turned(x.slice(3, 0, d), angles), x.slice(3, d, all)}, -1);
  std::vector<Tensor> halves = x.chunk(2, -1);
  return x * angles.cos + core::cat({halves[1].neg(), halves[0]}, -1) * angles.sin;
}

struct LlamaAttention : core::ModuleOf<LlamaAttention> {
  std::string kind;
  std::int64_t heads, groups, width;  ///< width: of a head
  detail::CausalOptions seeing;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, qkv_proj;
  Linear o_proj;
  std::shared_ptr<LlamaRMSNorm> q_norm, k_norm;

  LlamaAttention(const LlamaOptions& o, std::int64_t layer)
      : kind(o.kind),
        heads(o.num_attention_heads),
        groups(o.num_key_value_heads),
        width(o.head_width()),
        seeing{.scale = o.attention_scale,
               .window = o.windows.empty() ? 0 : o.windows.at(static_cast<std::size_t>(layer)),
               .cap = o.attention_cap},
        o_proj(heads * width, o.hidden_size, {.bias = o.output_bias}) {
    auto projection = [&](std::int64_t out) {
      return std::make_shared<Linear>(o.hidden_size, out * width, core::LinearOptions{.bias = o.qkv_bias});
    };
    if (o.fused) {
      qkv_proj = projection(heads + 2 * groups);
    } else {
      q_proj = projection(heads), k_proj = projection(groups), v_proj = projection(groups);
    }
    if (!o.head_norm) return;
    q_norm = std::make_shared<LlamaRMSNorm>(width, o);
    k_norm = std::make_shared<LlamaRMSNorm>(width, o);
  }
  std::string class_name() const override { return kind + "Attention"; }
  void members(core::Members& m) override {
    if (qkv_proj) {
      m.child("o_proj", o_proj).child("qkv_proj", qkv_proj);
      return;
    }
    m.child("q_proj", q_proj).child("k_proj", k_proj).child("v_proj", v_proj).child("o_proj", o_proj);
    if (q_norm) m.child("q_norm", q_norm).child("k_norm", k_norm);
  }
  Tensor forward(const Tensor& x, const Angles& angles, DecoderCache::Layer* cache) {
    detail::Heads parts = projected(x);
    if (q_norm) parts.queries = (*q_norm)(parts.queries), parts.keys = (*k_norm)(parts.keys);
    parts.queries = turned(parts.queries, angles);
    parts.keys = turned(parts.keys, angles);
    if (groups != heads) {
      parts.keys = core::repeat_interleave(parts.keys, heads / groups, 1);
      parts.values = core::repeat_interleave(parts.values, heads / groups, 1);
    }
    return o_proj(detail::join_heads(detail::causal_attention(parts, seeing, cache)));
  }

 private:
  /// (n, heads, t, d); keys and values (n, groups, t, d).
  detail::Heads projected(const Tensor& x) {
    if (!qkv_proj) {
      return {detail::split_heads((*q_proj)(x), heads), detail::split_heads((*k_proj)(x), groups),
              detail::split_heads((*v_proj)(x), groups)};
    }
    Tensor all = detail::split_heads((*qkv_proj)(x), heads + 2 * groups);
    return {all.slice(1, 0, heads), all.slice(1, heads, heads + groups),
            all.slice(1, heads + groups, heads + 2 * groups)};
  }
};

struct LlamaMLP : core::ModuleOf<LlamaMLP> {
  std::string kind;
  std::shared_ptr<Linear> gate_proj, up_proj, gate_up_proj;
  Linear down_proj;
  std::shared_ptr<core::Module> act_fn;

  explicit LlamaMLP(const LlamaOptions& o)
      : kind(o.kind),
        down_proj(o.intermediate_size, o.hidden_size, {.bias = o.mlp_bias}),
        act_fn(detail::text_activation(o.hidden_act)) {
    auto widening = [&](std::int64_t times) {
      return std::make_shared<Linear>(o.hidden_size, times * o.intermediate_size,
                                      core::LinearOptions{.bias = o.mlp_bias});
    };
    if (o.fused) {
      gate_up_proj = widening(2);
    } else {
      gate_proj = widening(1), up_proj = widening(1);
    }
  }
  std::string class_name() const override { return kind + "MLP"; }
  void members(core::Members& m) override {
    if (gate_up_proj) {
      m.child("gate_up_proj", gate_up_proj).child("down_proj", down_proj).child("activation_fn", act_fn);
      return;
    }
    m.child("gate_proj", gate_proj).child("up_proj", up_proj).child("down_proj", down_proj).child("act_fn", act_fn);
  }
  Tensor forward(const Tensor& x) {
    if (!gate_up_proj) return down_proj(act_fn->call((*gate_proj)(x)) * (*up_proj)(x));
    std::vector<Tensor> halves = (*gate_up_proj)(x).chunk(2, -1);
    return down_proj(halves[1] * act_fn->call(halves[0]));
  }
};

/// (n, t, hidden) -> the same.
struct LlamaDecoderLayer : core::ModuleOf<LlamaDecoderLayer> {
  std::string kind;
  LlamaAttention self_attn;
  LlamaMLP mlp;
  LlamaRMSNorm input_layernorm, post_attention_layernorm;
  std::shared_ptr<LlamaRMSNorm> pre_feedforward_layernorm, post_feedforward_layernorm;  ///< of Gemma
  std::shared_ptr<core::Dropout> resid_attn_dropout, resid_mlp_dropout;

  LlamaDecoderLayer(const LlamaOptions& o, std::int64_t layer)
      : kind(o.kind),
        self_attn(o, layer),
        mlp(o),
        input_layernorm(o.hidden_size, o),
        post_attention_layernorm(o.hidden_size, o) {
    if (o.gemma) {
      pre_feedforward_layernorm = std::make_shared<LlamaRMSNorm>(o.hidden_size, o);
      post_feedforward_layernorm = std::make_shared<LlamaRMSNorm>(o.hidden_size, o);
    }
    if (!o.fused) return;
    resid_attn_dropout = std::make_shared<core::Dropout>(o.resid_pdrop);
    resid_mlp_dropout = std::make_shared<core::Dropout>(o.resid_pdrop);
  }
  std::string class_name() const override { return kind + "DecoderLayer"; }
  void members(core::Members& m) override {
    m.child("self_attn", self_attn).child("mlp", mlp).child("input_layernorm", input_layernorm);
    m.child("post_attention_layernorm", post_attention_layernorm);
    if (pre_feedforward_layernorm) {
      m.child("pre_feedforward_layernorm", pre_feedforward_layernorm);
      m.child("post_feedforward_layernorm", post_feedforward_layernorm);
    }
    if (!resid_attn_dropout) return;
    m.child("resid_attn_dropout", resid_attn_dropout).child("resid_mlp_dropout", resid_mlp_dropout);
  }
  Tensor forward(const Tensor& x, const Angles& angles, DecoderCache::Layer* cache) {
    if (pre_feedforward_layernorm) {
      Tensor h = x + post_attention_layernorm(self_attn(input_layernorm(x), angles, cache));
      return h + (*post_feedforward_layernorm)(mlp((*pre_feedforward_layernorm)(h)));
    }
    auto dropped = [](const std::shared_ptr<core::Dropout>& dropout, const Tensor& y) {
      return dropout ? (*dropout)(y) : y;
    };
    Tensor h = x + dropped(resid_attn_dropout, self_attn(input_layernorm(x), angles, cache));
    return h + dropped(resid_mlp_dropout, mlp(post_attention_layernorm(h)));
  }
};

}  // namespace llama

LlamaModel::LlamaModel(const LlamaOptions& o)
    : embed_tokens(o), norm(o.hidden_size, o), rotary_emb(o.rotary, o.head_width(), o.kind), kind(o.kind) {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layers.push_back(llama::LlamaDecoderLayer(o, i));
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
    : model(o), lm_head(o.hidden_size, o.vocab_size, {.bias = false}), logit_cap(o.logit_cap) {
  if (o.tie_word_embeddings) {
    lm_head.weight = model.embed_tokens.weight;
  } else {
    detail::init_language(lm_head, 0.02);
  }
}

Tensor LlamaForCausalLM::logits_of(const Tensor& states) {
  return detail::capped(lm_head(states), logit_cap);
}

}  // namespace zoo

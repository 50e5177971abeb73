#include "zoo/hf_vit.h"

#include "libcore/module/init.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace hf_vit {

ViTPatchEmbeddings::ViTPatchEmbeddings(const HFViTOptions& o)
    : projection(o.in_channels, o.hidden_size, o.patch_size, {.stride = o.patch_size}) {}

ViTEmbeddings::ViTEmbeddings(const HFViTOptions& o)
    : cls_token(core::trunc_normal_(core::empty({1, 1, o.hidden_size}), {.std = 0.02})),
      position_embeddings(core::trunc_normal_(
          core::empty({1, (o.image_size / o.patch_size) * (o.image_size / o.patch_size) + 1, o.hidden_size}),
          {.std = 0.02})),
      patch_embeddings(o),
      dropout(o.dropout) {}

ViTPooler::ViTPooler(const HFViTOptions& o)
    : dense(o.hidden_size, o.pooler_size != 0 ? o.pooler_size : o.hidden_size),
      activation(detail::text_activation(o.pooler_act)) {}

void ViTEmbeddings::members(core::Members& m) {
  m.parameter("cls_token", cls_token).parameter("position_embeddings", position_embeddings);
  m.child("patch_embeddings", patch_embeddings).child("dropout", dropout);
}

Tensor ViTEmbeddings::forward(const Tensor& x) {         // (n, c, size, size)
  Tensor token = cls_token.expand({x.size(0), -1, -1});  // (n, 1, hidden)
  return dropout(core::cat({token, patch_embeddings(x)}, 1) + position_embeddings);
}

struct ViTAttention : core::ModuleOf<ViTAttention> {
  std::int64_t heads;
  double dropout;
  Linear q_proj, k_proj, v_proj, o_proj;

  explicit ViTAttention(const HFViTOptions& o)
      : heads(o.num_attention_heads),
        dropout(o.attention_dropout),
        q_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias}),
        k_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias}),
        v_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias}),
        o_proj(o.hidden_size, o.hidden_size) {}
  void members(core::Members& m) override {
    m.child("q_proj", q_proj).child("k_proj", k_proj).child("v_proj", v_proj).child("o_proj", o_proj);
  }
  Tensor forward(const Tensor& x) {
    Tensor q = detail::split_heads(q_proj(x), heads), k = detail::split_heads(k_proj(x), heads);
    Tensor v = detail::split_heads(v_proj(x), heads);
    const double p = is_training() ? dropout : 0.0;
    return o_proj(detail::join_heads(core::scaled_dot_product_attention(q, k, v, {.dropout = p})));
  }
};

struct ViTMLP : core::ModuleOf<ViTMLP> {
  std::shared_ptr<core::Module> activation_fn;
  Linear fc1, fc2;

  explicit ViTMLP(const HFViTOptions& o)
      : activation_fn(detail::text_activation(o.hidden_act)),
        fc1(o.hidden_size, o.intermediate_size),
        fc2(o.intermediate_size, o.hidden_size) {}
  void members(core::Members& m) override {
    m.child("activation_fn", activation_fn).child("fc1", fc1).child("fc2", fc2);
  }
  Tensor forward(const Tensor& x) { return fc2(activation_fn->call(fc1(x))); }
};

/// (n, tokens, hidden) -> the same.
struct ViTLayer : core::ModuleOf<ViTLayer> {
  ViTAttention attention;
  core::LayerNorm layernorm_before, layernorm_after;
  ViTMLP mlp;
  core::Dropout dropout;

  explicit ViTLayer(const HFViTOptions& o)
      : attention(o),
        layernorm_before({o.hidden_size}, {.eps = o.layer_norm_eps}),
        layernorm_after({o.hidden_size}, {.eps = o.layer_norm_eps}),
        mlp(o),
        dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("attention", attention).child("layernorm_before", layernorm_before);
    m.child("layernorm_after", layernorm_after).child("mlp", mlp).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = dropout(attention(layernorm_before(x))) + x;
    return dropout(mlp(layernorm_after(h))) + h;
  }
};

}  // namespace hf_vit

HFViTModel::HFViTModel(const HFViTOptions& o, bool pooling)
    : embeddings(o),
      layernorm({o.hidden_size}, {.eps = o.layer_norm_eps}),
      pooler(pooling ? std::make_shared<hf_vit::ViTPooler>(o) : nullptr) {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layers.push_back(hf_vit::ViTLayer(o));
  detail::init_language(*this, 0.02);
}

void HFViTModel::members(core::Members& m) {
  m.child("embeddings", embeddings).child("layers", layers).child("layernorm", layernorm);
  if (pooler) m.child("pooler", pooler);
}

Tensor HFViTModel::forward(const Tensor& x) {
  Tensor h = embeddings(x);  // (n, patches + 1, hidden)
  for (const auto& layer : layers) h = layer.second->call(h);
  return layernorm(h);
}

HFViTForImageClassification::HFViTForImageClassification(const HFViTOptions& o)
    : vit(o, false), classifier(o.hidden_size, o.num_labels) {
  detail::init_language(classifier, 0.02);
}

}  // namespace zoo

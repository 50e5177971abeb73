#include "zoo/clip.h"

#include <cmath>

#include "libcore/module/init.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/hf_vit.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace {

double narrow(std::int64_t width) {
  return 1 / std::sqrt(static_cast<double>(width));
}

Linear projection(std::int64_t in, std::int64_t out) {
  Linear linear(in, out, {.bias = false});
  core::init::normal_(linear.weight, 0, narrow(in));
  return linear;
}

}  // namespace

namespace clip {

CLIPTextEmbeddings::CLIPTextEmbeddings(const CLIPTowerOptions& o)
    : token_embedding(o.vocab_size, o.hidden_size), position_embedding(o.max_position_embeddings, o.hidden_size) {
  detail::init_language(*this, 0.02);
}

Tensor CLIPTextEmbeddings::forward(const Tensor& tokens) {  // (n, t)
  return token_embedding(tokens) + position_embedding(detail::positions(tokens));
}

CLIPVisionEmbeddings::CLIPVisionEmbeddings(const CLIPTowerOptions& o)
    : class_embedding(core::empty({o.hidden_size})),
      patch_embedding(o.num_channels, o.hidden_size, o.patch_size, {.stride = o.patch_size, .bias = false}),
      position_embedding((o.image_size / o.patch_size) * (o.image_size / o.patch_size) + 1, o.hidden_size) {
  core::init::normal_(class_embedding, 0, narrow(o.hidden_size));
  core::init::normal_(patch_embedding.weight, 0, 0.02);
  core::init::normal_(position_embedding.weight, 0, 0.02);
}

Tensor CLIPVisionEmbeddings::forward(const Tensor& images) {
  Tensor patches = patch_embedding(images).flatten(2).transpose(1, 2);  // (n, patches, hidden)
  Tensor first = class_embedding.expand({images.size(0), 1, -1});
  return core::cat({first, patches}, 1) + position_embedding.weight;
}

struct CLIPEncoderLayer : core::ModuleOf<CLIPEncoderLayer> {
  detail::HeadsAttention self_attn;
  core::LayerNorm layer_norm1;
  hf_vit::ViTMLP mlp;
  core::LayerNorm layer_norm2;

  explicit CLIPEncoderLayer(const CLIPTowerOptions& o)
      : self_attn(
            {.kind = "CLIP", .width = o.hidden_size, .heads = o.num_attention_heads, .dropout = o.attention_dropout}),
        layer_norm1({o.hidden_size}, {.eps = o.layer_norm_eps}),
        mlp({.hidden_size = o.hidden_size,
             .intermediate_size = o.intermediate_size,
             .hidden_act = o.hidden_act,
             .kind = "CLIP"}),
        layer_norm2({o.hidden_size}, {.eps = o.layer_norm_eps}) {
    const double deep = narrow(o.hidden_size) * narrow(2 * o.num_hidden_layers);
    for (Linear* linear : {&self_attn.k_proj, &self_attn.v_proj, &self_attn.q_proj, &mlp.fc2}) {
      core::init::normal_(linear->weight, 0, deep);
    }
    core::init::normal_(self_attn.out_proj.weight, 0, narrow(o.hidden_size));
    core::init::normal_(mlp.fc1.weight, 0, narrow(2 * o.hidden_size));
    for (Linear* linear :
         {&self_attn.k_proj, &self_attn.v_proj, &self_attn.q_proj, &self_attn.out_proj, &mlp.fc1, &mlp.fc2}) {
      core::init::zeros_(linear->bias);
    }
  }
  void members(core::Members& m) override {
    m.child("self_attn", self_attn).child("layer_norm1", layer_norm1).child("mlp", mlp);
    m.child("layer_norm2", layer_norm2);
  }
  Tensor forward(const Tensor& x, bool causal) {
    const Tensor y = layer_norm1(x);
    Tensor h = x + (causal ? self_attn.causal(y, nullptr) : self_attn(y));
    return h + mlp(layer_norm2(h));
  }
};

CLIPEncoder::CLIPEncoder(const CLIPTowerOptions& o, bool is_causal) : causal(is_causal) {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layers.push_back(CLIPEncoderLayer(o));
}

Tensor CLIPEncoder::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& layer : layers) h = static_cast<CLIPEncoderLayer&>(*layer.second)(h, causal);
  return h;
}

}  // namespace clip

CLIPTextModel::CLIPTextModel(const CLIPTowerOptions& o)
    : embeddings(o),
      encoder(o, true),
      final_layer_norm({o.hidden_size}, {.eps = o.layer_norm_eps}),
      eos_token_id(o.eos_token_id) {}

Tensor CLIPTextModel::pooled(const Tensor& tokens) {  // (n, t)
  // The number of the first models' configurations is another token's; there the end has the largest one.
  Tensor ends = eos_token_id == 2 ? tokens : (tokens == eos_token_id).to(core::DType::i64);
  const Tensor states = (*this)(tokens);  // (n, t, hidden)
  const Tensor places = ends.argmax(-1).reshape({-1, 1, 1}).expand({tokens.size(0), 1, states.size(2)});
  return core::gather(states, 1, places).select(1, 0);
}

CLIPVisionModel::CLIPVisionModel(const CLIPTowerOptions& o)
    : embeddings(o),
      pre_layrnorm({o.hidden_size}, {.eps = o.layer_norm_eps}),
      encoder(o, false),
      post_layernorm({o.hidden_size}, {.eps = o.layer_norm_eps}) {}

CLIPTextModelWithProjection::CLIPTextModelWithProjection(const CLIPTowerOptions& o)
    : text_model(o), text_projection(projection(o.hidden_size, o.projection_dim)) {}

CLIPVisionModelWithProjection::CLIPVisionModelWithProjection(const CLIPTowerOptions& o)
    : vision_model(o), visual_projection(projection(o.hidden_size, o.projection_dim)) {}

CLIPModel::CLIPModel(const CLIPOptions& o)
    : logit_scale(core::full({}, o.logit_scale)),
      text_model(o.text),
      vision_model(o.vision),
      visual_projection(projection(o.vision.hidden_size, o.projection_dim)),
      text_projection(projection(o.text.hidden_size, o.projection_dim)) {}

void CLIPModel::members(core::Members& m) {
  m.parameter("logit_scale", logit_scale).child("text_model", text_model).child("vision_model", vision_model);
  m.child("visual_projection", visual_projection).child("text_projection", text_projection);
}

Tensor CLIPModel::forward(const Tensor& tokens, const Tensor& images) {
  auto directed = [](const Tensor& x) { return x / core::sqrt((x * x).sum({-1}, true)); };
  const Tensor seen = directed(visual_projection(vision_model.pooled(images)));  // (m, projection)
  const Tensor read = directed(text_projection(text_model.pooled(tokens)));      // (n, projection)
  return core::matmul(seen, read.transpose(0, 1)) * core::exp(logit_scale);
}

CLIPForImageClassification::CLIPForImageClassification(const CLIPOptions& o)
    : vision_model(o.vision), classifier(o.vision.hidden_size, o.num_labels) {
  core::init::normal_(classifier.weight, 0, narrow(o.vision.hidden_size));
  core::init::zeros_(classifier.bias);
}

Tensor CLIPForImageClassification::forward(const Tensor& images) {
  const Tensor states = vision_model(images);  // (n, patches + 1, hidden)
  return classifier(states.slice(1, 1, states.size(1)).mean({1}));
}

}  // namespace zoo

#include "zoo/hf_vit.h"

#include <cmath>
#include <vector>

#include "libcore/module/init.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace hf_vit {

ViTPatchEmbeddings::ViTPatchEmbeddings(const HFViTOptions& o)
    : kind(o.kind), projection(o.in_channels, o.hidden_size, o.patch_size, {.stride = o.patch_size}) {}

namespace {

core::Parameter drawn_tokens(std::int64_t count, const HFViTOptions& o) {
  return core::Parameter(core::trunc_normal_(core::empty({1, count, o.hidden_size}), {.std = 0.02}));
}

std::int64_t positions_of(const HFViTOptions& o) {
  const std::int64_t side = o.image_size / o.patch_size;
  return side * side + (o.kind == "DeiT" ? 2 : 1);
}

}  // namespace

ViTEmbeddings::ViTEmbeddings(const HFViTOptions& o)
    : kind(o.kind),
      cls_token(drawn_tokens(1, o)),
      position_embeddings(drawn_tokens(positions_of(o), o)),
      patch_embeddings(o),
      dropout(o.dropout) {
  if (kind == "DeiT") distillation_token = drawn_tokens(1, o);
}

ViTPooler::ViTPooler(const HFViTOptions& o)
    : kind(o.kind),
      dense(o.hidden_size, o.pooler_size != 0 ? o.pooler_size : o.hidden_size),
      activation(detail::text_activation(o.pooler_act)) {}

void ViTEmbeddings::members(core::Members& m) {
  m.parameter("cls_token", cls_token).parameter("position_embeddings", position_embeddings);
  if (distillation_token.defined()) m.parameter("distillation_token", distillation_token);
  m.child("patch_embeddings", patch_embeddings).child("dropout", dropout);
}

Tensor ViTEmbeddings::forward(const Tensor& x) {  // (n, c, size, size)
  std::vector<Tensor> parts{cls_token.expand({x.size(0), -1, -1})};
  if (distillation_token.defined()) parts.push_back(distillation_token.expand({x.size(0), -1, -1}));
  parts.push_back(patch_embeddings(x));  // (n, patches, hidden)
  return dropout(core::cat(parts, 1) + position_embeddings);
}

Tensor resized_positions(const Tensor& positions, std::int64_t rows, std::int64_t columns) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(positions.size(1) - 1))));
  if (rows == side && columns == side) return positions;
  Tensor image = positions.slice(1, 1, positions.size(1)).reshape({1, side, side, -1}).permute({0, 3, 1, 2});
  image = core::interpolate(image.to(core::DType::f32),
                            {.size = {rows, columns}, .mode = "bicubic", .align_corners = false});
  const Tensor rest = image.to(positions.dtype()).permute({0, 2, 3, 1}).reshape({1, rows * columns, -1});
  return core::cat({positions.slice(1, 0, 1), rest}, 1);
}

ViTAttention::ViTAttention(const HFViTOptions& o)
    : kind(o.kind),
      heads(o.num_attention_heads),
      dropout(o.attention_dropout),
      q_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias}),
      k_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias && o.key_bias}),
      v_proj(o.hidden_size, o.hidden_size, {.bias = o.qkv_bias}),
      o_proj(o.hidden_size, o.hidden_size) {}

Tensor ViTAttention::forward(const Tensor& x, const Tensor& bias) {
  Tensor q = detail::split_heads(q_proj(x), heads), k = detail::split_heads(k_proj(x), heads);
  Tensor v = detail::split_heads(v_proj(x), heads);
  const double p = is_training() ? dropout : 0.0;
  return o_proj(detail::join_heads(core::scaled_dot_product_attention(q, k, v, {.mask = bias, .dropout = p})));
}

ViTMLP::ViTMLP(const HFViTOptions& o)
    : kind(o.kind),
      activation_fn(detail::text_activation(o.hidden_act)),
      fc1(o.hidden_size, o.intermediate_size),
      fc2(o.intermediate_size, o.hidden_size) {}

/// (n, tokens, hidden) -> the same.
struct ViTLayer : core::ModuleOf<ViTLayer> {
  std::string kind;
  ViTAttention attention;
  core::LayerNorm layernorm_before, layernorm_after;
  ViTMLP mlp;
  core::Dropout dropout;

  explicit ViTLayer(const HFViTOptions& o)
      : kind(o.kind),
        attention(o),
        layernorm_before({o.hidden_size}, {.eps = o.layer_norm_eps}),
        layernorm_after({o.hidden_size}, {.eps = o.layer_norm_eps}),
        mlp(o),
        dropout(o.dropout) {}
  std::string class_name() const override { return kind + "Layer"; }
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
    : kind(o.kind),
      embeddings(o),
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

DeiTForImageClassification::DeiTForImageClassification(const HFViTOptions& o)
    : deit(o, false), classifier(o.hidden_size, o.num_labels) {
  detail::init_language(classifier, 0.02);
}

DeiTForImageClassificationWithTeacher::DeiTForImageClassificationWithTeacher(const HFViTOptions& o)
    : deit(o, false),
      cls_classifier(o.hidden_size, o.num_labels),
      distillation_classifier(o.hidden_size, o.num_labels) {
  detail::init_language(cls_classifier, 0.02);
  detail::init_language(distillation_classifier, 0.02);
}

Tensor DeiTForImageClassificationWithTeacher::forward(const Tensor& x) {
  Tensor states = deit(x);  // (n, patches + 2, hidden)
  return (cls_classifier(states.select(1, 0)) + distillation_classifier(states.select(1, 1))) / 2;
}

}  // namespace zoo

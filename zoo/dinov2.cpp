#include "zoo/dinov2.h"

#include <memory>

#include "libcore/module/activation.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace dinov2 {

namespace {

Tensor drawn(const core::Shape& sizes) {
  return core::trunc_normal_(core::empty(sizes), {.std = 0.02});
}

}  // namespace

Dinov2Embeddings::Dinov2Embeddings(const Dinov2Options& o)
    : cls_token(drawn({1, 1, o.vit.hidden_size})), patch_embeddings(o.vit), dropout(o.vit.dropout) {
  const std::int64_t side = o.vit.image_size / o.vit.patch_size;
  if (o.use_mask_token) mask_token = core::Parameter(core::zeros({1, o.vit.hidden_size}));
  position_embeddings = core::Parameter(drawn({1, side * side + 1, o.vit.hidden_size}));
}

void Dinov2Embeddings::members(core::Members& m) {
  m.parameter("cls_token", cls_token);
  if (mask_token.defined()) m.parameter("mask_token", mask_token);
  m.parameter("position_embeddings", position_embeddings);
  m.child("patch_embeddings", patch_embeddings).child("dropout", dropout);
}

Tensor Dinov2Embeddings::forward(const Tensor& x) {  // (n, c, h, w)
  const Tensor patches = patch_embeddings(x);        // (n, patches, hidden)
  const Tensor tokens = core::cat({cls_token.expand({x.size(0), -1, -1}), patches}, 1);
  const std::int64_t side = patch_embeddings.projection.weight.size(2);
  return dropout(tokens + hf_vit::resized_positions(position_embeddings, x.size(2) / side, x.size(3) / side));
}

struct Dinov2LayerScale : core::ModuleOf<Dinov2LayerScale> {
  core::Parameter lambda1;  ///< (hidden)
  explicit Dinov2LayerScale(const Dinov2Options& o) : lambda1(core::full({o.vit.hidden_size}, o.layerscale_value)) {}
  void members(core::Members& m) override { m.parameter("lambda1", lambda1); }
  Tensor forward(const Tensor& x) const { return x * lambda1; }
};

/// A gate in the place of ViTMLP's one layer.
struct Dinov2SwiGLUFFN : core::ModuleOf<Dinov2SwiGLUFFN> {
  Linear gate_proj, up_proj, down_proj;
  detail::SiLUActivation act_fn;
  explicit Dinov2SwiGLUFFN(const HFViTOptions& o)
      : gate_proj(o.hidden_size, o.intermediate_size),
        up_proj(o.hidden_size, o.intermediate_size),
        down_proj(o.intermediate_size, o.hidden_size) {}
  void members(core::Members& m) override {
    m.child("gate_proj", gate_proj).child("up_proj", up_proj).child("down_proj", down_proj).child("act_fn", act_fn);
  }
  Tensor forward(const Tensor& x) { return down_proj(act_fn(gate_proj(x)) * up_proj(x)); }
};

/// (n, tokens, hidden) -> the same.
struct Dinov2Layer : core::ModuleOf<Dinov2Layer> {
  core::LayerNorm norm1;
  hf_vit::ViTAttention attention;
  Dinov2LayerScale layer_scale1;
  std::shared_ptr<core::Module> drop_path;
  core::LayerNorm norm2;
  std::shared_ptr<core::Module> mlp;
  Dinov2LayerScale layer_scale2;

  explicit Dinov2Layer(const Dinov2Options& o)
      : norm1({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}),
        attention(o.vit),
        layer_scale1(o),
        drop_path(detail::drop_path("Dinov2", o.drop_path_rate)),
        norm2({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}),
        layer_scale2(o) {
    if (o.use_swiglu_ffn) {
      mlp = std::make_shared<Dinov2SwiGLUFFN>(o.vit);
    } else {
      mlp = std::make_shared<hf_vit::ViTMLP>(o.vit);
    }
  }
  void members(core::Members& m) override {
    m.child("norm1", norm1).child("attention", attention).child("layer_scale1", layer_scale1);
    m.child("drop_path", drop_path).child("norm2", norm2).child("mlp", mlp).child("layer_scale2", layer_scale2);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = drop_path->call(layer_scale1(attention(norm1(x)))) + x;
    return drop_path->call(layer_scale2(mlp->call(norm2(h)))) + h;
  }
};

Dinov2Encoder::Dinov2Encoder(const Dinov2Options& o) {
  for (std::int64_t i = 0; i < o.vit.num_hidden_layers; ++i) layer.push_back(Dinov2Layer(o));
}

Tensor Dinov2Encoder::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& each : layer) h = each.second->call(h);
  return h;
}

}  // namespace dinov2

Dinov2Model::Dinov2Model(const Dinov2Options& o)
    : embeddings(o), encoder(o), layernorm({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}) {
  detail::init_language(*this, 0.02);
}

Dinov2ForImageClassification::Dinov2ForImageClassification(const Dinov2Options& o)
    : dinov2(o), classifier(2 * o.vit.hidden_size, o.vit.num_labels) {
  detail::init_language(classifier, 0.02);
}

Tensor Dinov2ForImageClassification::forward(const Tensor& x) {
  const Tensor states = dinov2(x);  // (n, patches + 1, hidden)
  const Tensor mean = states.slice(1, 1, states.size(1)).mean({1});
  return classifier(core::cat({states.select(1, 0), mean}, 1));
}

}  // namespace zoo

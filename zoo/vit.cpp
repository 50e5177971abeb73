#include "zoo/vit.h"

#include <cmath>
#include <string>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/attention.h"
#include "libcore/module/init.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Tensor;

namespace vit {

/// (n, tokens, width) -> the same.
struct EncoderBlock : core::ModuleOf<EncoderBlock> {
  core::LayerNorm ln_1;
  core::MultiheadAttention self_attention;
  core::Dropout dropout;
  core::LayerNorm ln_2;
  detail::MLPBlock mlp;

  explicit EncoderBlock(const Encoder::Options& o)
      : ln_1({o.width}, {.eps = 1e-6}),
        self_attention(o.width, o.heads, {.dropout = o.attention_dropout, .batch_first = true}),
        dropout(o.dropout),
        ln_2({o.width}, {.eps = 1e-6}),
        mlp({.width = o.width, .hidden = o.hidden, .dropout = o.dropout}) {}
  void members(core::Members& m) override {
    m.child("ln_1", ln_1).child("self_attention", self_attention).child("dropout", dropout);
    m.child("ln_2", ln_2).child("mlp", mlp);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = ln_1(x);
    h = dropout(std::get<0>(self_attention(h, h, h, core::AttentionCall{.need_weights = false}))) + x;
    return h + mlp(ln_2(h));
  }
};

namespace {

core::Sequential make_layers(const Encoder::Options& o) {
  core::Sequential layers;
  for (std::int64_t i = 0; i < o.layers; ++i) layers.add_module("encoder_layer_" + std::to_string(i), EncoderBlock(o));
  return layers;
}

}  // namespace

Encoder::Encoder(const Options& o)
    : pos_embedding(core::init::normal_(core::empty({1, o.tokens, o.width}), 0, 0.02)),
      dropout(o.dropout),
      layers(make_layers(o)),
      ln({o.width}, {.eps = 1e-6}) {}

void Encoder::members(core::Members& m) {
  m.parameter("pos_embedding", pos_embedding).child("dropout", dropout).child("layers", layers).child("ln", ln);
}

Tensor Encoder::forward(const Tensor& x) {
  return ln(layers(dropout(x + pos_embedding)));
}

}  // namespace vit

namespace {

vit::Encoder::Options encoder_options(const VisionTransformer::Options& o) {
  if (o.image_size % o.patch_size != 0) {
    throw core::Error(core::ErrorCode::value, "a patch of " + std::to_string(o.patch_size) +
                                                  " does not divide an image of " + std::to_string(o.image_size));
  }
  const std::int64_t side = o.image_size / o.patch_size;
  return {.tokens = side * side + 1,
          .layers = o.num_layers,
          .heads = o.num_heads,
          .width = o.hidden_dim,
          .hidden = o.mlp_dim,
          .dropout = o.dropout,
          .attention_dropout = o.attention_dropout};
}

}  // namespace

VisionTransformer::VisionTransformer(const Options& o)
    : options(o),
      conv_proj(o.in_channels, o.hidden_dim, o.patch_size, {.stride = o.patch_size}),
      class_token(core::zeros({1, 1, o.hidden_dim})),
      encoder(encoder_options(o)) {
  const std::int64_t width = o.representation > 0 ? o.representation : o.hidden_dim;
  if (o.representation > 0) {
    heads.add_module("pre_logits", core::Linear(o.hidden_dim, width));
    heads.add_module("act", core::Tanh());
  }
  core::Linear head(width, o.num_classes);
  const auto fan_in = static_cast<double>(o.in_channels * o.patch_size * o.patch_size);
  core::trunc_normal_(conv_proj.weight, {.std = std::sqrt(1 / fan_in)});
  core::init::zeros_(conv_proj.bias);
  for (core::Linear* layer : detail::modules_of<core::Linear>(heads)) {
    core::trunc_normal_(layer->weight, {.std = std::sqrt(1 / static_cast<double>(o.hidden_dim))});
    core::init::zeros_(layer->bias);
  }
  core::init::zeros_(head.weight);
  core::init::zeros_(head.bias);
  heads.add_module("head", std::move(head));
}

void VisionTransformer::members(core::Members& m) {
  m.child("conv_proj", conv_proj).parameter("class_token", class_token).child("encoder", encoder).child("heads", heads);
}

Tensor VisionTransformer::forward(const Tensor& x) {  // (n, c, size, size)
  if (x.size(2) != options.image_size || x.size(3) != options.image_size) {
    throw core::Error(core::ErrorCode::value, "Wrong image size: expected " + std::to_string(options.image_size) +
                                                  " x " + std::to_string(options.image_size) + ", got " +
                                                  std::to_string(x.size(2)) + " x " + std::to_string(x.size(3)));
  }
  Tensor patches = conv_proj(x).flatten(2).transpose(1, 2);  // (n, patches, width)
  Tensor token = class_token.expand({x.size(0), -1, -1});    // (n, 1, width)
  Tensor h = encoder(core::cat({token, patches}, 1));        // (n, tokens, width)
  return heads(h.select(1, 0));                              // (n, classes)
}

}  // namespace zoo

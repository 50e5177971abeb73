#pragma once
// CLIP under Hugging Face's names: a tower that reads texts and one that looks at images, whose answers lie close where
// they belong together; each tower alone too. Source: Radford et al. 2021. Thread safety: as core::Module.
// Use: zoo::CLIPModel net({}); core::Tensor logits = net(tokens, images);

#include <cstdint>
#include <string>

#include "libcore/module/conv.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

/// Those of the base model's text tower; its image tower has CLIPOptions::vision.
struct CLIPTowerOptions {
  std::int64_t hidden_size = 512;
  std::int64_t intermediate_size = 2048;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 8;
  std::int64_t projection_dim = 512;  ///< of a tower alone
  std::string hidden_act = "quick_gelu";
  double layer_norm_eps = 1e-5;
  double attention_dropout = 0;
  // Of texts.
  std::int64_t vocab_size = 49408;
  std::int64_t max_position_embeddings = 77;
  std::int64_t eos_token_id = 49407;  ///< whose first place holds what a text says; 2: the largest token's does
  // Of images.
  std::int64_t num_channels = 3;
  std::int64_t image_size = 224;
  std::int64_t patch_size = 32;
};

struct CLIPOptions {
  CLIPTowerOptions text = {};
  CLIPTowerOptions vision = {.hidden_size = 768, .intermediate_size = 3072, .num_attention_heads = 12};
  std::int64_t projection_dim = 512;
  double logit_scale = 2.6592;  ///< what it begins as: the logarithm of what cosines are multiplied by
  std::int64_t num_labels = 2;
};

namespace clip {

struct CLIPTextEmbeddings : core::ModuleOf<CLIPTextEmbeddings> {
  core::Embedding token_embedding, position_embedding;
  explicit CLIPTextEmbeddings(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.child("token_embedding", token_embedding).child("position_embedding", position_embedding);
  }
  core::Tensor forward(const core::Tensor& tokens);
};

struct CLIPVisionEmbeddings : core::ModuleOf<CLIPVisionEmbeddings> {
  core::Parameter class_embedding;  ///< (hidden)
  core::Conv2d patch_embedding;
  core::Embedding position_embedding;
  explicit CLIPVisionEmbeddings(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.parameter("class_embedding", class_embedding).child("patch_embedding", patch_embedding);
    m.child("position_embedding", position_embedding);
  }
  /// (n, channels, size, size) -> (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& images);
};

struct CLIPEncoder : core::ModuleOf<CLIPEncoder> {
  core::ModuleList layers;
  bool causal;
  CLIPEncoder(const CLIPTowerOptions& o, bool is_causal);
  void members(core::Members& m) override { m.child("layers", layers); }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace clip

struct CLIPTextModel : core::ModuleOf<CLIPTextModel> {
  clip::CLIPTextEmbeddings embeddings;
  clip::CLIPEncoder encoder;
  core::LayerNorm final_layer_norm;
  std::int64_t eos_token_id;

  explicit CLIPTextModel(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.child("embeddings", embeddings).child("encoder", encoder).child("final_layer_norm", final_layer_norm);
  }
  /// tokens (n, t), int64 -> states (n, t, hidden).
  core::Tensor forward(const core::Tensor& tokens) { return final_layer_norm(encoder(embeddings(tokens))); }
  /// What the texts say: (n, hidden).
  core::Tensor pooled(const core::Tensor& tokens);
};

struct CLIPVisionModel : core::ModuleOf<CLIPVisionModel> {
  clip::CLIPVisionEmbeddings embeddings;
  core::LayerNorm pre_layrnorm;
  clip::CLIPEncoder encoder;
  core::LayerNorm post_layernorm;

  explicit CLIPVisionModel(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.child("embeddings", embeddings).child("pre_layrnorm", pre_layrnorm).child("encoder", encoder);
    m.child("post_layernorm", post_layernorm);
  }
  /// (n, channels, size, size) -> states (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& images) { return encoder(pre_layrnorm(embeddings(images))); }
  /// What the images show: (n, hidden).
  core::Tensor pooled(const core::Tensor& images) { return post_layernorm((*this)(images).select(1, 0)); }
};

struct CLIPTextModelWithProjection : core::ModuleOf<CLIPTextModelWithProjection> {
  CLIPTextModel text_model;
  core::Linear text_projection;
  explicit CLIPTextModelWithProjection(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.child("text_model", text_model).child("text_projection", text_projection);
  }
  /// tokens (n, t), int64 -> (n, projection_dim).
  core::Tensor forward(const core::Tensor& tokens) { return text_projection(text_model.pooled(tokens)); }
};

struct CLIPVisionModelWithProjection : core::ModuleOf<CLIPVisionModelWithProjection> {
  CLIPVisionModel vision_model;
  core::Linear visual_projection;
  explicit CLIPVisionModelWithProjection(const CLIPTowerOptions& o);
  void members(core::Members& m) override {
    m.child("vision_model", vision_model).child("visual_projection", visual_projection);
  }
  /// (n, channels, size, size) -> (n, projection_dim).
  core::Tensor forward(const core::Tensor& images) { return visual_projection(vision_model.pooled(images)); }
};

struct CLIPModel : core::ModuleOf<CLIPModel>, TwoInputs {
  core::Parameter logit_scale;  ///< one value
  CLIPTextModel text_model;
  CLIPVisionModel vision_model;
  core::Linear visual_projection, text_projection;

  explicit CLIPModel(const CLIPOptions& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64, and images (m, channels, size, size) -> logits_per_image (m, n).
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& images);
  core::Tensor with_second(const core::Tensor& tokens, const core::Tensor& images) override {
    return (*this)(tokens, images);
  }
};

struct CLIPForImageClassification : core::ModuleOf<CLIPForImageClassification> {
  CLIPVisionModel vision_model;
  core::Linear classifier;
  explicit CLIPForImageClassification(const CLIPOptions& o);
  void members(core::Members& m) override { m.child("vision_model", vision_model).child("classifier", classifier); }
  /// (n, channels, size, size) -> logits (n, num_labels), from the mean of the patches.
  core::Tensor forward(const core::Tensor& images);
};

}  // namespace zoo

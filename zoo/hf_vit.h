#pragma once
// The vision transformer of vit.h under Hugging Face's names, alone and with a classifier.
// Source: Dosovitskiy et al. 2020. Thread safety: as core::Module.
// Use: zoo::HFViTForImageClassification net({.num_labels = 10}); core::Tensor logits = net(images);

#include <cstdint>
#include <memory>
#include <string>

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct HFViTOptions {
  std::int64_t image_size = 224;
  std::int64_t patch_size = 16;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t num_labels = 2;
  std::int64_t in_channels = 3;
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-12;
  bool qkv_bias = true;
  double dropout = 0;
  double attention_dropout = 0;
  std::int64_t pooler_size = 0;  ///< of the pooler's output; 0: hidden_size
  std::string pooler_act = "tanh";
};

namespace hf_vit {

struct ViTPatchEmbeddings : core::ModuleOf<ViTPatchEmbeddings> {
  core::Conv2d projection;
  explicit ViTPatchEmbeddings(const HFViTOptions& o);
  void members(core::Members& m) override { m.child("projection", projection); }
  /// (n, channels, size, size) -> (n, patches, hidden).
  core::Tensor forward(const core::Tensor& x) { return projection(x).flatten(2).transpose(1, 2); }
};

struct ViTEmbeddings : core::ModuleOf<ViTEmbeddings> {
  core::Parameter cls_token;            ///< (1, 1, hidden)
  core::Parameter position_embeddings;  ///< (1, patches + 1, hidden)
  ViTPatchEmbeddings patch_embeddings;
  core::Dropout dropout;
  explicit ViTEmbeddings(const HFViTOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

struct ViTPooler : core::ModuleOf<ViTPooler> {
  core::Linear dense;
  std::shared_ptr<core::Module> activation;
  explicit ViTPooler(const HFViTOptions& o);
  void members(core::Members& m) override { m.child("dense", dense).child("activation", activation); }
  core::Tensor forward(const core::Tensor& x) { return activation->call(dense(x.select(1, 0))); }
};

}  // namespace hf_vit

struct HFViTModel : core::ModuleOf<HFViTModel> {
  hf_vit::ViTEmbeddings embeddings;
  core::ModuleList layers;
  core::LayerNorm layernorm;
  std::shared_ptr<hf_vit::ViTPooler> pooler;  ///< absent below a classifier

  explicit HFViTModel(const HFViTOptions& o, bool pooling = true);
  std::string class_name() const override { return "ViTModel"; }
  void members(core::Members& m) override;
  /// (n, channels, size, size) -> states (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& x);
};

struct HFViTForImageClassification : core::ModuleOf<HFViTForImageClassification> {
  HFViTModel vit;
  core::Linear classifier;

  explicit HFViTForImageClassification(const HFViTOptions& o);
  std::string class_name() const override { return "ViTForImageClassification"; }
  void members(core::Members& m) override { m.child("vit", vit).child("classifier", classifier); }
  /// (n, channels, size, size) -> logits (n, num_labels).
  core::Tensor forward(const core::Tensor& x) { return classifier(vit(x).select(1, 0)); }
};

}  // namespace zoo

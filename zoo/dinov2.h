#pragma once
// DINOv2 under Hugging Face's names: a vision transformer whose branches are scaled channel by channel and whose
// positions are resized to the image. Source: Oquab et al. 2023. Thread safety: as core::Module.
// Use: zoo::Dinov2ForImageClassification net({}); core::Tensor logits = net(images);

#include <cstdint>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/hf_vit.h"

namespace zoo {

/// Those of the base model.
struct Dinov2Options {
  HFViTOptions vit = {.patch_size = 14, .layer_norm_eps = 1e-6, .kind = "Dinov2"};
  double layerscale_value = 1;  ///< what scales begin as
  double drop_path_rate = 0;
  bool use_swiglu_ffn = false;  ///< vit.intermediate_size is that of its gate then
  bool use_mask_token = true;
};

namespace dinov2 {

struct Dinov2Embeddings : core::ModuleOf<Dinov2Embeddings> {
  core::Parameter cls_token;            ///< (1, 1, hidden)
  core::Parameter mask_token;           ///< (1, hidden), for training alone
  core::Parameter position_embeddings;  ///< (1, patches + 1, hidden)
  hf_vit::ViTPatchEmbeddings patch_embeddings;
  core::Dropout dropout;
  explicit Dinov2Embeddings(const Dinov2Options& o);
  void members(core::Members& m) override;
  /// (n, channels, height, width) -> (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& x);
};

struct Dinov2Encoder : core::ModuleOf<Dinov2Encoder> {
  core::ModuleList layer;
  explicit Dinov2Encoder(const Dinov2Options& o);
  void members(core::Members& m) override { m.child("layer", layer); }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace dinov2

struct Dinov2Model : core::ModuleOf<Dinov2Model> {
  dinov2::Dinov2Embeddings embeddings;
  dinov2::Dinov2Encoder encoder;
  core::LayerNorm layernorm;

  explicit Dinov2Model(const Dinov2Options& o);
  void members(core::Members& m) override {
    m.child("embeddings", embeddings).child("encoder", encoder).child("layernorm", layernorm);
  }
  /// (n, channels, height, width) -> states (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& x) { return layernorm(encoder(embeddings(x))); }
};

/// Reads the first token and the mean of the others.
struct Dinov2ForImageClassification : core::ModuleOf<Dinov2ForImageClassification> {
  Dinov2Model dinov2;
  core::Linear classifier;

  explicit Dinov2ForImageClassification(const Dinov2Options& o);
  void members(core::Members& m) override { m.child("dinov2", dinov2).child("classifier", classifier); }
  /// (n, channels, height, width) -> logits (n, num_labels).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#pragma once
// ConvNeXt V2 under Hugging Face's names: ConvNeXt with a norm of each channel's response over the image.
// Source: Woo et al. 2023. Thread safety: as core::Module.
// Use: zoo::ConvNextV2ForImageClassification net({.num_labels = 10}); core::Tensor logits = net(images);

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

/// Those of the tiny model.
struct ConvNextV2Options {
  std::int64_t num_channels = 3;
  std::int64_t patch_size = 4;
  std::vector<std::int64_t> hidden_sizes = {96, 192, 384, 768};
  std::vector<std::int64_t> depths = {3, 3, 9, 3};
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-12;  ///< of the norm before the classifier alone
  double drop_path_rate = 0;      ///< in the last layer; the others in proportion
  std::int64_t num_labels = 2;
};

namespace convnextv2 {

/// Layer norm over the channels of (n, h, w, c), or of (n, c, h, w) where `first`.
struct ConvNextV2LayerNorm : core::ModuleOf<ConvNextV2LayerNorm> {
  core::LayerNorm norm;
  bool first;
  ConvNextV2LayerNorm(std::int64_t channels, bool channels_first)
      : norm({channels}, {.eps = 1e-6}), first(channels_first) {}
  void members(core::Members& m) override { norm.members(m); }
  std::string extra_repr() const override { return norm.extra_repr(); }
  core::Tensor forward(const core::Tensor& x) const;
};

struct ConvNextV2Embeddings : core::ModuleOf<ConvNextV2Embeddings> {
  core::Conv2d patch_embeddings;
  ConvNextV2LayerNorm layernorm;
  explicit ConvNextV2Embeddings(const ConvNextV2Options& o);
  void members(core::Members& m) override {
    m.child("patch_embeddings", patch_embeddings).child("layernorm", layernorm);
  }
  core::Tensor forward(const core::Tensor& x) { return layernorm(patch_embeddings(x)); }
};

struct ConvNextV2Encoder : core::ModuleOf<ConvNextV2Encoder> {
  core::ModuleList stages;
  explicit ConvNextV2Encoder(const ConvNextV2Options& o);
  void members(core::Members& m) override { m.child("stages", stages); }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace convnextv2

struct ConvNextV2Model : core::ModuleOf<ConvNextV2Model> {
  convnextv2::ConvNextV2Embeddings embeddings;
  convnextv2::ConvNextV2Encoder encoder;
  core::LayerNorm layernorm;

  explicit ConvNextV2Model(const ConvNextV2Options& o);
  void members(core::Members& m) override {
    m.child("embeddings", embeddings).child("encoder", encoder).child("layernorm", layernorm);
  }
  /// (n, channels, h, w) -> the mean over the image, normalised (n, width).
  core::Tensor forward(const core::Tensor& x);
};

/// (n, channels, h, w) -> logits (n, num_labels).
struct ConvNextV2ForImageClassification : core::ModuleOf<ConvNextV2ForImageClassification> {
  ConvNextV2Model convnextv2;
  core::Linear classifier;

  explicit ConvNextV2ForImageClassification(const ConvNextV2Options& o);
  void members(core::Members& m) override { m.child("convnextv2", convnextv2).child("classifier", classifier); }
  core::Tensor forward(const core::Tensor& x) { return classifier(convnextv2(x)); }
};

}  // namespace zoo

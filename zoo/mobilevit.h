#pragma once
// MobileViT under Hugging Face's names: mobile convolutions, and transformers over the pixels that have the same place
// in their patches. Source: Mehta and Rastegari 2021. Thread safety: as core::Module. Use:
// zoo::MobileViTForImageClassification net({}); core::Tensor logits = net(images);

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

/// Those of the small model.
struct MobileViTOptions {
  std::int64_t num_channels = 3;
  std::int64_t patch_size = 2;
  std::vector<std::int64_t> hidden_sizes = {144, 192, 240};                       ///< of the transformers: three
  std::vector<std::int64_t> neck_hidden_sizes = {16, 32, 64, 96, 128, 160, 640};  ///< channels between: seven
  std::int64_t num_attention_heads = 4;
  double mlp_ratio = 2;
  double expand_ratio = 4;
  std::string hidden_act = "silu";
  std::int64_t conv_kernel_size = 3;
  std::int64_t output_stride = 32;  ///< 8 or 16: the last stages see wider and keep the size
  double hidden_dropout = 0.1;
  double attention_dropout = 0;
  double classifier_dropout = 0.1;
  double layer_norm_eps = 1e-5;
  bool qkv_bias = true;
  std::int64_t num_labels = 2;
};

namespace mobilevit {

struct ConvLayerOptions {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
  bool normalization = true;
  bool activation = true;
};
/// Convolution without bias that keeps the size (before the stride), batch norm, activation.
struct MobileViTConvLayer : core::ModuleOf<MobileViTConvLayer> {
  core::Conv2d convolution;
  std::shared_ptr<core::BatchNorm2d> normalization;
  std::shared_ptr<core::Module> activation;
  MobileViTConvLayer(std::int64_t in, std::int64_t out, const ConvLayerOptions& how, const MobileViTOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

struct MobileViTEncoder : core::ModuleOf<MobileViTEncoder> {
  core::ModuleList layer;
  explicit MobileViTEncoder(const MobileViTOptions& o);
  void members(core::Members& m) override { m.child("layer", layer); }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace mobilevit

struct MobileViTModel : core::ModuleOf<MobileViTModel> {
  mobilevit::MobileViTConvLayer conv_stem;
  mobilevit::MobileViTEncoder encoder;
  mobilevit::MobileViTConvLayer conv_1x1_exp;

  explicit MobileViTModel(const MobileViTOptions& o);
  void members(core::Members& m) override {
    m.child("conv_stem", conv_stem).child("encoder", encoder).child("conv_1x1_exp", conv_1x1_exp);
  }
  /// (n, channels, height, width) -> (n, neck_hidden_sizes[6], height / 32, width / 32).
  core::Tensor forward(const core::Tensor& x) { return conv_1x1_exp(encoder(conv_stem(x))); }
};

struct MobileViTForImageClassification : core::ModuleOf<MobileViTForImageClassification> {
  MobileViTModel mobilevit;
  core::Dropout dropout;
  core::Linear classifier;

  explicit MobileViTForImageClassification(const MobileViTOptions& o);
  void members(core::Members& m) override {
    m.child("mobilevit", mobilevit).child("dropout", dropout).child("classifier", classifier);
  }
  /// (n, channels, height, width) -> logits (n, num_labels).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

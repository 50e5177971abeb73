#pragma once
// Vision transformer. Source: Dosovitskiy et al. 2020, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::VisionTransformer net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

namespace vit {

/// (n, tokens, width) -> the same, with positions added.
struct Encoder : core::ModuleOf<Encoder> {
  struct Options {
    std::int64_t tokens = 1;
    std::int64_t layers = 1;
    std::int64_t heads = 1;
    std::int64_t width = 1;
    std::int64_t hidden = 1;
    double dropout = 0;
    double attention_dropout = 0;
  };
  core::Parameter pos_embedding;  ///< (1, tokens, width)
  core::Dropout dropout;
  core::Sequential layers;
  core::LayerNorm ln;

  explicit Encoder(const Options& options);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace vit

struct VisionTransformer : core::ModuleOf<VisionTransformer> {
  /// Those of B/16.
  struct Options {
    std::int64_t image_size = 224;
    std::int64_t patch_size = 16;
    std::int64_t num_layers = 12;
    std::int64_t num_heads = 12;
    std::int64_t hidden_dim = 768;
    std::int64_t mlp_dim = 3072;
    double dropout = 0;
    double attention_dropout = 0;
    std::int64_t representation = 0;  ///< width of a layer before the classifier; 0: none
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  Options options;
  core::Conv2d conv_proj;
  core::Parameter class_token;  ///< (1, 1, hidden_dim)
  vit::Encoder encoder;
  core::Sequential heads;

  /// Error(value) when the patch does not divide the image.
  explicit VisionTransformer(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, image_size, image_size) -> logits (n, num_classes). Error(value) for another size.
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

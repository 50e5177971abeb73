#pragma once
// Swin transformer (v1). Source: Liu et al. 2021, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::SwinTransformer net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/blocks.h"

namespace zoo {

struct SwinTransformer : core::ModuleOf<SwinTransformer> {
  /// Those of Swin-T, but for the stochastic depth.
  struct Options {
    std::int64_t patch_size = 4;
    std::int64_t width = 96;  ///< of the first stage; each next one doubles it
    std::vector<std::int64_t> depths = {2, 2, 6, 2};
    std::vector<std::int64_t> heads = {3, 6, 12, 24};
    std::int64_t window = 7;        ///< side of the squares within which tokens see each other
    double stochastic_depth = 0.1;  ///< probability in the last block; the others in proportion
    double mlp_ratio = 4;           ///< of a block's hidden layer to its width
    double dropout = 0;
    double attention_dropout = 0;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential features;
  core::LayerNorm norm;
  detail::Permute permute;
  core::AdaptiveAvgPool2d avgpool;
  core::Flatten flatten;
  core::Linear head;

  explicit SwinTransformer(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

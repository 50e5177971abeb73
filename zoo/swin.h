#pragma once
// Swin transformer (v1). Source: Liu et al. 2021, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::SwinTransformer net(zoo::swin_options("t")); core::Tensor y = net(images);

#include <array>
#include <cstdint>
#include <string_view>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/blocks.h"

namespace zoo {

struct SwinTransformer : core::ModuleOf<SwinTransformer> {
  /// Those of Swin-T.
  struct Options {
    std::int64_t patch_size = 4;
    std::int64_t width = 96;  ///< of the first stage; each next one doubles it
    std::array<std::int64_t, 4> depths = {2, 2, 6, 2};
    std::array<std::int64_t, 4> heads = {3, 6, 12, 24};
    std::int64_t window = 7;        ///< side of the squares within which tokens see each other
    double stochastic_depth = 0.2;  ///< probability in the last block; the others in proportion
    double dropout = 0;
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

/// size: "t", "s" or "b". Error(value) otherwise.
SwinTransformer::Options swin_options(std::string_view size);

}  // namespace zoo

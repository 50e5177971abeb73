#pragma once
// ConvNeXt. Source: Liu, Mao, Wu, Feichtenhofer, Darrell, Xie 2022, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::ConvNeXt net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct ConvNeXt : core::ModuleOf<ConvNeXt> {
  struct Options {
    std::vector<std::int64_t> widths = {96, 192, 384, 768};
    std::vector<std::int64_t> depths = {3, 3, 9, 3};
    double stochastic_depth = 0;  ///< probability in the last block; the others in proportion
    double layer_scale = 1e-6;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  explicit ConvNeXt(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

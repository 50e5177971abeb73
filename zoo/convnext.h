#pragma once
// ConvNeXt. Source: Liu, Mao, Wu, Feichtenhofer, Darrell, Xie 2022, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::ConvNeXt net(zoo::convnext_options("tiny")); core::Tensor y = net(images);

#include <array>
#include <cstdint>
#include <string_view>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct ConvNeXt : core::ModuleOf<ConvNeXt> {
  struct Options {
    std::array<std::int64_t, 4> widths = {96, 192, 384, 768};
    std::array<std::int64_t, 4> depths = {3, 3, 9, 3};
    double stochastic_depth = 0.1;  ///< probability in the last block; the others in proportion
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

/// size: "tiny", "small", "base" or "large". Error(value) otherwise.
ConvNeXt::Options convnext_options(std::string_view size);

}  // namespace zoo

#pragma once
// ShuffleNet v2. Source: Ma, Zhang, Zheng, Sun 2018, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::ShuffleNetV2 net(1.0, {.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct ShuffleNetV2 : core::ModuleOf<ShuffleNetV2> {
  struct Options {
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential conv1;
  core::MaxPool2d maxpool;
  core::Sequential stage2, stage3, stage4;
  core::Sequential conv5;
  core::Linear fc;

  /// width: 0.5, 1, 1.5 or 2. Error(value) otherwise.
  ShuffleNetV2(double width, const Options& options);
  explicit ShuffleNetV2(double width) : ShuffleNetV2(width, Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

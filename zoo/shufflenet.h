#pragma once
// ShuffleNet v2. Source: Ma, Zhang, Zheng, Sun 2018, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::ShuffleNetV2 net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct ShuffleNetV2 : core::ModuleOf<ShuffleNetV2> {
  struct Options {
    std::vector<std::int64_t> repeats = {4, 8, 4};  ///< blocks of the three stages
    /// Channels of the first convolution, the three stages, and the last convolution.
    std::vector<std::int64_t> widths = {24, 116, 232, 464, 1024};
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential conv1;
  core::MaxPool2d maxpool;
  core::Sequential stage2, stage3, stage4;
  core::Sequential conv5;
  core::Linear fc;

  /// Error(value) unless the lists have three and five numbers.
  explicit ShuffleNetV2(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

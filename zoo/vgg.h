#pragma once
// VGG with 11, 13, 16 or 19 layers, with and without batch norm. Source: Simonyan, Zisserman 2014 (configurations A, B,
// D, E), names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::VGG net({.batch_norm = true}); core::Tensor logits = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct VGG : core::ModuleOf<VGG> {
  struct Options {
    /// Channels of the convolutions in order, 0 where the image is halved; the last has 512. This is that of 11 layers.
    std::vector<std::int64_t> plan = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};
    bool batch_norm = false;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.5;
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  /// Error(value) for a plan whose last convolution has not 512 channels.
  explicit VGG(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) with h, w of at least 32 -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#pragma once
// AlexNet for images of 224 x 224 (at least 63 x 63). Source: Krizhevsky 2014, "One weird trick", as torchvision has
// it. Thread safety: as core::Module. Use: zoo::AlexNet net({.num_classes = 10}); core::Tensor logits = net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct AlexNet : core::ModuleOf<AlexNet> {
  struct Options {
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.5;
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  explicit AlexNet(const Options& options);
  AlexNet() : AlexNet(Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#pragma once
// VGG with 11, 13, 16 or 19 layers, with and without batch norm. Source: Simonyan, Zisserman 2014 (configurations A, B,
// D, E), names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::VGG net(16, {.batch_norm = true}); core::Tensor logits = net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct VGG : core::ModuleOf<VGG> {
  struct Options {
    bool batch_norm = false;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.5;
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  /// layers: 11, 13, 16 or 19. Error(value) otherwise.
  explicit VGG(std::int64_t layers, const Options& options);
  explicit VGG(std::int64_t layers) : VGG(layers, Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) with h, w of at least 32 -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#pragma once
// EfficientNet B0 to B7. Source: Tan, Le 2019, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::EfficientNet net(zoo::efficientnet_options(0)); core::Tensor y =
// net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct EfficientNet : core::ModuleOf<EfficientNet> {
  struct Options {
    double width = 1;
    double depth = 1;
    double dropout = 0.2;
    double stochastic_depth = 0.2;  ///< probability in the last block; the others in proportion
    bool slow_norm = false;         ///< batch norms with eps 0.001 and momentum 0.01
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  explicit EfficientNet(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

/// The options of B0 to B7. Error(value) otherwise.
EfficientNet::Options efficientnet_options(std::int64_t size);

}  // namespace zoo

#pragma once
// EfficientNet B0 to B7 and v2. Source: Tan, Le 2019 and 2021, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::EfficientNet net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct EfficientNet : core::ModuleOf<EfficientNet> {
  /// Blocks of one kind in a row.
  struct Stage {
    std::int64_t expand, kernel, stride, in, out, depth;
    bool fused = false;  ///< one convolution in place of the widening and the filter of each channel (v2)
  };
  struct Options {
    double width = 1;  ///< of stages that are not fused
    double depth = 1;  ///< the same
    std::vector<Stage> stages = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                                 {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                                 {6, 3, 1, 192, 320, 1}};
    std::int64_t last_channel = 0;  ///< before the classifier; 0: four times the last stage's
    double dropout = 0.2;
    double stochastic_depth = 0.2;  ///< probability in the last block; the others in proportion
    double norm_eps = 1e-5;
    double norm_momentum = 0.1;
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

}  // namespace zoo

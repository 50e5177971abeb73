#pragma once
// DenseNet: each layer sees the outputs of all before it in its block. Source: Huang, Liu, van der Maaten, Weinberger
// 2016, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::DenseNet net({.num_classes = 10}); core::Tensor logits = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct DenseNet : core::ModuleOf<DenseNet> {
  struct Options {
    std::int64_t growth = 32;  ///< channels that each layer adds
    std::vector<std::int64_t> depths = {6, 12, 24, 16};
    std::int64_t first = 64;      ///< channels of the first convolution
    std::int64_t bottleneck = 4;  ///< width of a layer's 1 x 1 convolution, in growths
    double dropout = 0;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Sequential features;
  core::Linear classifier;

  explicit DenseNet(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

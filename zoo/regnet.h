#pragma once
// RegNet X and Y: networks whose widths lie on a quantised line. Source: Radosavovic, Kosaraju, Girshick, He, Dollar
// 2020, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::RegNet net({.depth = 4, .first = 24}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "zoo/blocks.h"

namespace zoo {

struct SimpleStemIN : detail::ConvNormActOf<SimpleStemIN> {
  using ConvNormActOf::ConvNormActOf;
};

struct RegNet : core::ModuleOf<RegNet> {
  struct Options {
    std::int64_t depth = 1;   ///< blocks in all
    std::int64_t first = 24;  ///< width of the first block
    double slope = 24;        ///< by which the width grows from block to block, before it is quantised
    double step = 2;          ///< ratio of the widths of neighbouring stages
    std::int64_t group = 8;   ///< channels of a group of the 3 x 3 convolutions
    double squeeze = 0;       ///< width of squeeze and excitation over that of the input; 0: none
    std::int64_t stem = 32;   ///< channels of the first convolution
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  SimpleStemIN stem;
  core::Sequential trunk_output;
  core::AdaptiveAvgPool2d avgpool;
  core::Linear fc;

  explicit RegNet(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);

  struct Stage {
    std::int64_t width, depth, group;
  };
  /// The stages that the options come to.
  static std::vector<Stage> stages(const Options& options);
};

}  // namespace zoo

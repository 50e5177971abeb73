#pragma once
// MobileNet v2 and v3. Sources: Sandler et al. 2018; Howard et al. 2019; names and initial values as torchvision has
// them. Thread safety: as core::Module. Use: zoo::MobileNetV2 net({.num_classes = 10}); core::Tensor y = net(images);

#include <cstdint>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct MobileNetV2 : core::ModuleOf<MobileNetV2> {
  struct Stage {
    std::int64_t expand, width, depth, stride;
  };
  struct Options {
    double width_mult = 1;
    std::int64_t round_nearest = 8;  ///< widths are multiples of it
    std::vector<Stage> stages = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.2;
  };
  core::Sequential features;
  core::Sequential classifier;

  explicit MobileNetV2(const Options& options);
  MobileNetV2() : MobileNetV2(Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

struct MobileNetV3 : core::ModuleOf<MobileNetV3> {
  enum class Size { small, large };
  struct Block {
    std::int64_t in, kernel, hidden, out;
    bool squeeze;    ///< with squeeze and excitation
    bool hardswish;  ///< in place of ReLU
    std::int64_t stride, dilation;
  };
  struct Options {
    double width_mult = 1;
    bool reduced_tail = false;       ///< half the channels in the last stage
    std::vector<Block> blocks = {};  ///< empty: those of the size, at the width asked for
    std::int64_t last_channel = 0;   ///< width of the layer before the classifier; 0: that of the size
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.2;
    double norm_eps = 0.001;
    bool dilated = false;  ///< the last stage dilates instead of striding (for segmentation)
  };
  core::Sequential features;
  core::AdaptiveAvgPool2d avgpool;
  core::Sequential classifier;

  MobileNetV3(Size size, const Options& options);
  explicit MobileNetV3(Size size) : MobileNetV3(size, Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

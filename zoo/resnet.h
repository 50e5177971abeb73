#pragma once
// ResNet, ResNeXt and wide ResNet. Source: He, Zhang, Ren, Sun 2015; Xie et al. 2016; Zagoruyko, Komodakis 2016, with
// the stride in the 3 x 3 convolution as torchvision has it.
// Thread safety: as core::Module. Use: zoo::ResNet net({.num_classes = 10}); core::Tensor logits = net(images);

#include <array>
#include <cstdint>
#include <memory>

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

class ResNetStages;

struct ResNet : core::ModuleOf<ResNet> {
  struct Options {
    bool bottleneck = false;                            ///< blocks of three convolutions instead of two
    std::array<std::int64_t, 4> depths = {2, 2, 2, 2};  ///< blocks of each stage
    std::int64_t groups = 1;                            ///< of the 3 x 3 convolutions of bottlenecks
    std::int64_t width_per_group = 64;
    /// Stages 2 to 4: keep the size and dilate instead of striding (for segmentation).
    std::array<bool, 3> dilate = {false, false, false};
    bool zero_init_residual = false;  ///< the last batch norm of every block begins with weights of 0
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
  };
  core::Conv2d conv1;
  core::BatchNorm2d bn1;
  core::ReLU relu;
  core::MaxPool2d maxpool;
  core::Sequential layer1, layer2, layer3, layer4;
  core::AdaptiveAvgPool2d avgpool;
  core::Linear fc;

  explicit ResNet(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);

 private:
  ResNet(const Options& options, ResNetStages&& stages);
};

}  // namespace zoo

#pragma once
// Semantic segmentation on a dilated ResNet: FCN and DeepLab v3. Sources: Long, Shelhamer, Darrell 2014; Chen,
// Papandreou, Schroff, Adam 2017, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: auto net = zoo::make_fcn({.num_classes = 21}); core::Tensor y =
// net->call(images);

#include <cstdint>
#include <memory>

#include "libcore/module/module.h"
#include "zoo/resnet.h"

namespace zoo {

struct SegmentationOptions {
  /// Of bottlenecks; how it strides is the segmentation's own.
  ResNet::Options backbone = {.bottleneck = true, .depths = {3, 4, 6, 3}};
  std::int64_t num_classes = 21;
  std::int64_t in_channels = 3;
};

/// A backbone's feature map, classified place by place and brought back to the size of the image.
/// (n, in_channels, h, w) -> logits (n, num_classes, h, w).
std::shared_ptr<core::Module> make_fcn(const SegmentationOptions& options);
std::shared_ptr<core::Module> make_deeplabv3(const SegmentationOptions& options);

}  // namespace zoo

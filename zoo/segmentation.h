#pragma once
// Semantic segmentation on a dilated ResNet: FCN and DeepLab v3. Sources: Long, Shelhamer, Darrell 2014; Chen,
// Papandreou, Schroff, Adam 2017, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: auto net = zoo::fcn_resnet(50, {.num_classes = 21}); core::Tensor y =
// net->call(images);

#include <cstdint>
#include <memory>

#include "libcore/module/module.h"

namespace zoo {

struct SegmentationOptions {
  std::int64_t num_classes = 21;
  std::int64_t in_channels = 3;
};

/// A backbone's feature map, classified place by place and brought back to the size of the image.
/// (n, in_channels, h, w) -> logits (n, num_classes, h, w). layers: 50 or 101. Error(value) otherwise.
struct FCN;
struct DeepLabV3;
std::shared_ptr<core::Module> fcn_resnet(std::int64_t layers, const SegmentationOptions& options = {});
std::shared_ptr<core::Module> deeplabv3_resnet(std::int64_t layers, const SegmentationOptions& options = {});

}  // namespace zoo

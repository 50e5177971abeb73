#include "zoo/vgg.h"

#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace {

/// Convolutions of each of the five stages.
std::vector<int> stage_depths(std::int64_t layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw core::Error(core::ErrorCode::value, "VGG has 11, 13, 16 or 19 layers, not " + std::to_string(layers));
  }
}

core::Sequential make_features(std::int64_t layers, const VGG::Options& o) {
  constexpr std::int64_t kWidths[] = {64, 128, 256, 512, 512};
  core::Sequential features;
  std::int64_t in = o.in_channels;
  const std::int64_t* width = kWidths;
  for (int depth : stage_depths(layers)) {
    for (int i = 0; i < depth; ++i) {
      features.push_back(core::Conv2d(in, *width, 3, {.padding = 1}));
      if (o.batch_norm) features.push_back(core::BatchNorm2d(*width));
      features.push_back(core::ReLU({.inplace = true}));
      in = *width;
    }
    features.push_back(core::MaxPool2d(2, {.stride = 2}));
    ++width;
  }
  return features;
}

}  // namespace

VGG::VGG(std::int64_t layers, const Options& o)
    : features(make_features(layers, o)),
      avgpool({7, 7}),
      classifier{Linear(512 * 7 * 7, 4096),  core::ReLU({.inplace = true}), core::Dropout(o.dropout),
                 Linear(4096, 4096),         core::ReLU({.inplace = true}), core::Dropout(o.dropout),
                 Linear(4096, o.num_classes)} {
  detail::init_layers(*this, detail::init_kaiming_fan_out, [](Linear& linear) { detail::init_normal(linear, 0.01); });
}

void VGG::members(core::Members& m) {
  m.child("features", features).child("avgpool", avgpool).child("classifier", classifier);
}

Tensor VGG::forward(const Tensor& x) {  // (n, c, 224, 224)
  Tensor h = avgpool(features(x));      // (n, 512, 7, 7)
  return classifier(h.flatten(1));      // (n, classes)
}

}  // namespace zoo

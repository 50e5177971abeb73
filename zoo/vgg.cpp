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

core::Sequential make_features(const VGG::Options& o) {
  core::Sequential features;
  std::int64_t in = o.in_channels;
  for (std::int64_t width : o.plan) {
    if (width == 0) {
      features.push_back(core::MaxPool2d(2, {.stride = 2}));
      continue;
    }
    features.push_back(core::Conv2d(in, width, 3, {.padding = 1}));
    if (o.batch_norm) features.push_back(core::BatchNorm2d(width));
    features.push_back(core::ReLU({.inplace = true}));
    in = width;
  }
  if (in != 512) {
    throw core::Error(core::ErrorCode::value,
                      "VGG's classifier reads 512 channels, and the last convolution has " + std::to_string(in));
  }
  return features;
}

}  // namespace

VGG::VGG(const Options& o)
    : features(make_features(o)),
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

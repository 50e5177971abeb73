#include "zoo/alexnet.h"

#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"

namespace zoo {

using core::Conv2d;
using core::Linear;
using core::MaxPool2d;
using core::Tensor;

namespace {

core::ReLU relu() {
  return core::ReLU({.inplace = true});
}

}  // namespace

AlexNet::AlexNet(const Options& o)
    : features{Conv2d(o.in_channels, 64, 11, {.stride = 4, .padding = 2}),
               relu(),
               MaxPool2d(3, {.stride = 2}),
               Conv2d(64, 192, 5, {.padding = 2}),
               relu(),
               MaxPool2d(3, {.stride = 2}),
               Conv2d(192, 384, 3, {.padding = 1}),
               relu(),
               Conv2d(384, 256, 3, {.padding = 1}),
               relu(),
               Conv2d(256, 256, 3, {.padding = 1}),
               relu(),
               MaxPool2d(3, {.stride = 2})},
      avgpool({6, 6}),
      classifier{core::Dropout(o.dropout),   Linear(256 * 6 * 6, 4096), relu(),
                 core::Dropout(o.dropout),   Linear(4096, 4096),        relu(),
                 Linear(4096, o.num_classes)} {}

void AlexNet::members(core::Members& m) {
  m.child("features", features).child("avgpool", avgpool).child("classifier", classifier);
}

Tensor AlexNet::forward(const Tensor& x) {  // (n, c, 224, 224)
  Tensor h = avgpool(features(x));          // (n, 256, 6, 6)
  return classifier(h.flatten(1));          // (n, classes)
}

}  // namespace zoo

#include "zoo/small_images.h"

#include "libcore/module/activation.h"
#include "libcore/module/norm.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Conv2d;
using core::Tensor;

MnistNet::MnistNet(const Options& o)
    : conv1(o.in_channels, 32, 3),
      conv2(32, 64, 3),
      dropout1(o.convolution_dropout),
      dropout2(o.linear_dropout),
      fc1(9216, 128),
      fc2(128, o.num_classes) {}

void MnistNet::members(core::Members& m) {
  m.child("conv1", conv1).child("conv2", conv2).child("dropout1", dropout1).child("dropout2", dropout2);
  m.child("fc1", fc1).child("fc2", fc2);
}

Tensor MnistNet::forward(const Tensor& x) {            // (n, 1, 28, 28)
  Tensor h = core::relu(conv2(core::relu(conv1(x))));  // (n, 64, 24, 24)
  h = dropout1(core::max_pool2d(h, 2)).flatten(1);     // (n, 9216)
  h = dropout2(core::relu(fc1(h)));                    // (n, 128)
  return core::log_softmax(fc2(h), 1);                 // (n, classes)
}

CifarNet::CifarNet(const Options& o)
    : conv1(o.in_channels, 6, 5),
      pool(2, {.stride = 2}),
      conv2(6, 16, 5),
      fc1(400, 120),
      fc2(120, 84),
      fc3(84, o.num_classes) {}

void CifarNet::members(core::Members& m) {
  m.child("conv1", conv1).child("pool", pool).child("conv2", conv2);
  m.child("fc1", fc1).child("fc2", fc2).child("fc3", fc3);
}

Tensor CifarNet::forward(const Tensor& x) {         // (n, 3, 32, 32)
  Tensor h = pool(core::relu(conv1(x)));            // (n, 6, 14, 14)
  h = pool(core::relu(conv2(h))).flatten(1);        // (n, 400)
  return fc3(core::relu(fc2(core::relu(fc1(h)))));  // (n, classes)
}

BatchNormNet::BatchNormNet(const Options& o)
    : features{Conv2d(o.in_channels, o.channels, 3, {.padding = 1, .bias = false}),
               core::BatchNorm2d(o.channels),
               core::ReLU({.inplace = true}),
               core::MaxPool2d(2),
               Conv2d(o.channels, 2 * o.channels, 3, {.padding = 1, .bias = false}),
               core::BatchNorm2d(2 * o.channels),
               core::ReLU({.inplace = true})},
      fc(2 * o.channels, o.num_classes) {}

void BatchNormNet::members(core::Members& m) {
  m.child("features", features).child("fc", fc);
}

Tensor BatchNormNet::forward(const Tensor& x) {  // (n, 1, h, w)
  return fc(features(x).mean({2, 3}));           // (n, classes)
}

}  // namespace zoo

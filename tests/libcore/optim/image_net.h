#pragma once
// A small network of a convolution, a norm, dropout and a linear layer, for tests that record training steps as graphs.
// Use: ImageNet net; Tensor out = net(ImageNet::input());

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"

namespace test {

/// Of images (N, 1, H, W), 3 classes.
struct ImageNet : core::ModuleOf<ImageNet> {
  core::Conv2d conv{1, 4, 3};
  core::BatchNorm2d norm{4};
  core::Dropout drop{0.25};
  core::Linear out{4, 3};
  void members(core::Members& m) override {
    m.child("conv", conv);
    m.child("norm", norm);
    m.child("drop", drop);
    m.child("out", out);
  }
  core::Tensor forward(const core::Tensor& x) {
    const core::Tensor features = core::max_pool2d(core::relu(norm(conv(x))), 2);
    return out(drop(features.mean(core::Shape{2, 3})));
  }
  static core::Tensor input() { return core::randn({4, 1, 8, 8}); }
};

}  // namespace test

#pragma once
// LeNet-5 for 28 x 28 grey images: two convolutions, three linear layers, ReLU and max-pooling.
// Source: LeCun, Bottou, Bengio, Haffner 1998, in the ReLU and max-pooling variant of today's tutorials.
// Thread safety: as core::Module. Use: zoo::LeNet5 net; core::Tensor logits = net(images);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/module.h"

namespace zoo {

struct LeNet5 : core::ModuleOf<LeNet5> {
  core::Conv2d conv1;
  core::Conv2d conv2;
  core::Linear fc1;
  core::Linear fc2;
  core::Linear fc3;

  explicit LeNet5(std::int64_t classes = 10);
  void members(core::Members& m) override;
  /// (n, 1, 28, 28) -> logits (n, classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#include "zoo/lenet.h"

#include "libcore/ops/activation.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Tensor;

LeNet5::LeNet5(std::int64_t classes)
    : conv1(1, 6, 5, {.padding = 2}), conv2(6, 16, 5), fc1(400, 120), fc2(120, 84), fc3(84, classes) {}

void LeNet5::members(core::Members& m) {
  m.child("conv1", conv1).child("conv2", conv2).child("fc1", fc1).child("fc2", fc2).child("fc3", fc3);
}

Tensor LeNet5::forward(const Tensor& x) {                // (n, 1, 28, 28)
  Tensor h = core::max_pool2d(core::relu(conv1(x)), 2);  // (n, 6, 14, 14)
  h = core::max_pool2d(core::relu(conv2(h)), 2);         // (n, 16, 5, 5)
  h = h.flatten(1);                                      // (n, 400)
  h = core::relu(fc1(h));                                // (n, 120)
  h = core::relu(fc2(h));                                // (n, 84)
  return fc3(h);                                         // (n, classes)
}

}  // namespace zoo

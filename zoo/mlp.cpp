#include "zoo/mlp.h"

#include "libcore/ops/activation.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

MLP::MLP(const Options& options) : fc1(options.inputs, options.hidden), fc2(options.hidden, options.classes) {}

void MLP::members(core::Members& m) {
  m.child("fc1", fc1).child("fc2", fc2);
}

core::Tensor MLP::forward(const core::Tensor& x) {  // (n, ...)
  return fc2(core::relu(fc1(x.flatten(1))));        // (n, inputs) -> (n, hidden) -> (n, classes)
}

}  // namespace zoo

#pragma once
// A perceptron with one hidden layer; the input is flattened first.
// Thread safety: as core::Module. Use: zoo::MLP net; core::Tensor logits = net(images);

#include <cstdint>

#include "libcore/module/linear.h"
#include "libcore/module/module.h"

namespace zoo {

struct MLP : core::ModuleOf<MLP> {
  struct Options {
    std::int64_t inputs = 784;
    std::int64_t hidden = 256;
    std::int64_t classes = 10;
  };
  core::Linear fc1;
  core::Linear fc2;

  explicit MLP(const Options& options);
  MLP() : MLP(Options()) {}
  void members(core::Members& m) override;
  /// (n, ...) with `inputs` values a row -> logits (n, classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

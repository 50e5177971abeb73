#pragma once
// Inception v3 for images of 299 x 299 (at least 75 x 75). Source: Szegedy et al. 2015, names and initial values as
// torchvision has them. Thread safety: as core::Module. Use: zoo::Inception3 net({.num_classes = 10});

#include <cstdint>
#include <memory>
#include <tuple>

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "zoo/googlenet.h"

namespace zoo {

struct Inception3 : core::ModuleOf<Inception3> {
  struct Options {
    bool aux_logits = true;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.5;
    bool transform_input = false;  ///< as GoogLeNet's
  };
  struct Outputs {
    core::Tensor logits;
    core::Tensor aux_logits;  ///< undefined without the auxiliary head
    auto tensor_parts() { return std::tie(logits, aux_logits); }
  };
  using Conv = googlenet::BasicConv2d;
  using Block = std::shared_ptr<core::Module>;
  Conv conv_1a, conv_2a, conv_2b;
  core::MaxPool2d maxpool1;
  Conv conv_3b, conv_4a;
  core::MaxPool2d maxpool2;
  Block mixed_5b, mixed_5c, mixed_5d;
  Block mixed_6a, mixed_6b, mixed_6c, mixed_6d, mixed_6e;
  Block aux_head;
  Block mixed_7a, mixed_7b, mixed_7c;
  core::AdaptiveAvgPool2d avgpool;
  core::Dropout dropout;
  core::Linear fc;
  bool transform_input;

  explicit Inception3(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x) { return run(x, false).logits; }
  /// The same with the auxiliary head, which training adds to its loss.
  Outputs forward(const core::Tensor& x, WithHeads) { return run(x, true); }

 private:
  Outputs run(const core::Tensor& x, bool head);
};

}  // namespace zoo

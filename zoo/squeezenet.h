#pragma once
// SqueezeNet 1.0 and 1.1. Source: Iandola et al. 2016, names and initial values as torchvision has them.
// Thread safety: as core::Module. Use: zoo::SqueezeNet net(zoo::SqueezeNet::Version::v1_1);

#include <cstdint>

#include "libcore/module/sequential.h"

namespace zoo {

struct SqueezeNet : core::ModuleOf<SqueezeNet> {
  enum class Version { v1_0, v1_1 };
  struct Options {
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.5;
  };
  core::Sequential features;
  core::Sequential classifier;

  SqueezeNet(Version version, const Options& options);
  explicit SqueezeNet(Version version) : SqueezeNet(version, Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

#pragma once
// Capsule network with routing by agreement and reconstruction. Source: Sabour, Frosst, Hinton 2017.
// Thread safety: as core::Module. Use: zoo::CapsNet net; auto [lengths, image] = net(digits, labels);
//   zoo::capsule_loss({lengths, image}, digits, labels).backward();

#include <array>
#include <cstdint>
#include <tuple>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

/// Keeps the direction of each vector along the last dimension, brings its length into [0, 1).
core::Tensor squash(const core::Tensor& s);

namespace capsnet {

/// (n, channels, h, w) -> capsules (n, types * h' * w', size); number = (type * h' + y) * w' + x.
struct PrimaryCaps : core::ModuleOf<PrimaryCaps> {
  struct Options {
    std::int64_t channels = 256;
    std::int64_t types = 32;
    std::int64_t size = 8;
    std::int64_t kernel = 9;
    std::int64_t stride = 2;
  };
  std::int64_t types, size;
  core::Conv2d conv;
  explicit PrimaryCaps(const Options& o);
  void members(core::Members& m) override { m.child("conv", conv); }
  core::Tensor forward(const core::Tensor& x);
};

/// (n, inputs, in_size) -> (n, outputs, out_size) by routing. The last iteration alone carries gradients; the couplings
/// are constants to them.
struct DigitCaps : core::ModuleOf<DigitCaps> {
  struct Options {
    std::int64_t inputs = 1152;
    std::int64_t in_size = 8;
    std::int64_t outputs = 10;
    std::int64_t out_size = 16;
    std::int64_t iterations = 3;
  };
  std::int64_t iterations;
  core::Parameter W;  ///< (inputs, outputs, out_size, in_size)
  explicit DigitCaps(const Options& o);
  void members(core::Members& m) override { m.parameter("W", W); }
  core::Tensor forward(const core::Tensor& capsules);
};

}  // namespace capsnet

struct CapsNet : core::ModuleOf<CapsNet> {
  struct Options {
    std::int64_t channels = 256;
    std::int64_t types = 32;        ///< of primary capsules
    std::int64_t primary_size = 8;  ///< dimensions of a primary capsule
    std::int64_t num_classes = 10;
    std::int64_t digit_size = 16;
    std::int64_t iterations = 3;
    std::array<std::int64_t, 2> hidden = {512, 1024};  ///< of the reconstruction
    std::int64_t image = 28;
    std::int64_t kernel = 9;
    std::int64_t in_channels = 1;
  };
  core::Conv2d conv1;
  capsnet::PrimaryCaps primary;
  capsnet::DigitCaps digit;
  core::Sequential decoder;

  explicit CapsNet(const Options& o);
  CapsNet() : CapsNet(Options()) {}
  void members(core::Members& m) override;
  /// (n, in_channels, image, image) -> lengths of the digit capsules (n, num_classes) and the image rebuilt
  /// (n, in_channels * image^2) from the capsule of `label` (n), or from the longest.
  std::tuple<core::Tensor, core::Tensor> forward(const core::Tensor& x, const core::Tensor& label = {});
};

/// Margin loss, summed over the classes, + 0.0005 * summed squared error of the image; the mean over the batch.
core::Tensor capsule_loss(const std::tuple<core::Tensor, core::Tensor>& output, const core::Tensor& x,
                          const core::Tensor& label);

}  // namespace zoo

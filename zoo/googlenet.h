#pragma once
// GoogLeNet (Inception v1) with batch norm and auxiliary heads. Source: Szegedy et al. 2014, names and initial values
// as torchvision has them. Thread safety: as core::Module. Use: zoo::GoogLeNet net({.num_classes = 10});

#include <cstdint>
#include <memory>
#include <tuple>

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"

namespace zoo {

namespace googlenet {

/// Convolution without bias, batch norm, ReLU.
struct BasicConv2d : core::ModuleOf<BasicConv2d> {
  core::Conv2d conv;
  core::BatchNorm2d bn;
  BasicConv2d(std::int64_t in, std::int64_t out, core::Size2 kernel, const core::Conv2dLayerOptions& options = {});
  void members(core::Members& m) override { m.child("conv", conv).child("bn", bn); }
  core::Tensor forward(const core::Tensor& x);
};

/// Channels of the four branches.
struct Widths {
  std::int64_t in;
  std::int64_t one;
  std::int64_t three_reduced, three;
  std::int64_t five_reduced, five;
  std::int64_t pooled;
};
struct Inception;

/// (n, in, h, w) -> logits (n, classes).
struct InceptionAux : core::ModuleOf<InceptionAux> {
  BasicConv2d conv;
  core::Linear fc1;
  core::Linear fc2;
  core::Dropout dropout;
  InceptionAux(std::int64_t in, std::int64_t classes, double dropout);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// Images (n, 3, h, w) of the usual mean and deviation in the range that the first weights were trained on.
core::Tensor as_first_trained(const core::Tensor& x);

}  // namespace googlenet

/// Asks a model's forward for its auxiliary heads too.
struct WithHeads {};

struct GoogLeNet : core::ModuleOf<GoogLeNet> {
  struct Options {
    bool aux_logits = true;
    std::int64_t num_classes = 1000;
    std::int64_t in_channels = 3;
    double dropout = 0.2;
    double dropout_aux = 0.7;
    bool transform_input = false;  ///< images come with the usual mean and deviation, weights are of the first training
  };
  struct Outputs {
    core::Tensor logits;
    core::Tensor aux_logits2;  ///< of the head behind inception4d; undefined without auxiliary heads
    core::Tensor aux_logits1;  ///< of the head behind inception4a
    auto tensor_parts() { return std::tie(logits, aux_logits2, aux_logits1); }
  };
  using Block = std::shared_ptr<googlenet::Inception>;
  googlenet::BasicConv2d conv1;
  core::MaxPool2d maxpool1;
  googlenet::BasicConv2d conv2, conv3;
  core::MaxPool2d maxpool2;
  Block inception3a, inception3b;
  core::MaxPool2d maxpool3;
  Block inception4a, inception4b, inception4c, inception4d, inception4e;
  core::MaxPool2d maxpool4;
  Block inception5a, inception5b;
  std::shared_ptr<googlenet::InceptionAux> aux1, aux2;
  core::AdaptiveAvgPool2d avgpool;
  core::Dropout dropout;
  core::Linear fc;
  bool transform_input;

  explicit GoogLeNet(const Options& options);
  void members(core::Members& m) override;
  /// (n, in_channels, h, w) -> logits (n, num_classes).
  core::Tensor forward(const core::Tensor& x) { return run(x, false).logits; }
  /// The same with the auxiliary heads, which training adds to its loss.
  Outputs forward(const core::Tensor& x, WithHeads) { return run(x, true); }

 private:
  Outputs run(const core::Tensor& x, bool heads);
};

}  // namespace zoo

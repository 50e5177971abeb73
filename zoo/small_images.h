#pragma once
// Small networks for images of 28 x 28 and 32 x 32 that well-known tutorials use.
// Thread safety: as core::Module. Use: zoo::MnistNet net; core::Tensor log_probabilities = net(digits);

#include <cstdint>

#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

namespace zoo {

/// The network of PyTorch's MNIST example. (n, 1, 28, 28) -> log-probabilities (n, 10).
struct MnistNet : core::ModuleOf<MnistNet> {
  struct Options {
    double convolution_dropout = 0.25;
    double linear_dropout = 0.5;
    std::int64_t num_classes = 10;
    std::int64_t in_channels = 1;
  };
  core::Conv2d conv1, conv2;
  core::Dropout dropout1, dropout2;
  core::Linear fc1, fc2;

  explicit MnistNet(const Options& options);
  MnistNet() : MnistNet(Options()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// The network of PyTorch's beginners' tutorial. (n, 3, 32, 32) -> logits (n, 10).
struct CifarNet : core::ModuleOf<CifarNet> {
  struct Options {
    std::int64_t num_classes = 10;
    std::int64_t in_channels = 3;
  };
  core::Conv2d conv1;
  core::MaxPool2d pool;
  core::Conv2d conv2;
  core::Linear fc1, fc2, fc3;

  explicit CifarNet(const Options& options);
  CifarNet() : CifarNet(Options()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// Two convolutions with batch norm, the mean over the image, a linear layer. (n, 1, h, w) -> logits (n, 10).
struct BatchNormNet : core::ModuleOf<BatchNormNet> {
  struct Options {
    std::int64_t channels = 8;
    std::int64_t num_classes = 10;
    std::int64_t in_channels = 1;
  };
  core::Sequential features;
  core::Linear fc;

  explicit BatchNormNet(const Options& options);
  BatchNormNet() : BatchNormNet(Options()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo

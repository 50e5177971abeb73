#include "zoo/densenet.h"

#include <string>
#include <vector>

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/init.h"
#include "libcore/module/norm.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::BatchNorm2d;
using core::Conv2d;
using core::Tensor;

// The names of these classes are printed, underscores included.

/// (n, in, h, w) -> (n, growth, h, w).
struct _DenseLayer : core::ModuleOf<_DenseLayer> {
  BatchNorm2d norm1;
  core::ReLU relu1;
  Conv2d conv1;
  BatchNorm2d norm2;
  core::ReLU relu2;
  Conv2d conv2;
  double dropout;

  _DenseLayer(std::int64_t in, const DenseNet::Options& o)
      : norm1(in),
        relu1({.inplace = true}),
        conv1(in, o.bottleneck * o.growth, 1, {.bias = false}),
        norm2(o.bottleneck * o.growth),
        relu2({.inplace = true}),
        conv2(o.bottleneck * o.growth, o.growth, 3, {.padding = 1, .bias = false}),
        dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("norm1", norm1).child("relu1", relu1).child("conv1", conv1);
    m.child("norm2", norm2).child("relu2", relu2).child("conv2", conv2);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = conv1(relu1(norm1(x)));  // (n, bottleneck * growth, h, w)
    h = conv2(relu2(norm2(h)));         // (n, growth, h, w)
    return dropout > 0 ? core::dropout(h, dropout, is_training()) : h;
  }
};

/// (n, in, h, w) -> (n, in + depth * growth, h, w).
struct _DenseBlock : core::ModuleOf<_DenseBlock>, core::ModuleEntries {
  struct Size {
    std::int64_t depth;
    std::int64_t in;
  };
  _DenseBlock(const Size& size, const DenseNet::Options& o) {
    for (std::int64_t i = 0; i < size.depth; ++i) {
      add("denselayer" + std::to_string(i + 1), _DenseLayer(size.in + i * o.growth, o));
    }
  }
  int version() const override { return 2; }
  void members(core::Members& m) override { list(m); }
  Tensor forward(const Tensor& x) {
    std::vector<Tensor> parts{x};
    for (const auto& entry : entries()) parts.push_back(entry.second->call(core::cat(parts, 1)));
    return core::cat(parts, 1);
  }
};

/// (n, in, h, w) -> (n, in / 2, h / 2, w / 2).
struct _Transition : detail::SequentialOf<_Transition> {
  explicit _Transition(std::int64_t in) {
    add_module("norm", BatchNorm2d(in));
    add_module("relu", core::ReLU({.inplace = true}));
    add_module("conv", Conv2d(in, in / 2, 1, {.bias = false}));
    add_module("pool", core::AvgPool2d(2, {.stride = 2}));
  }
};

namespace {

core::Sequential make_features(const DenseNet::Options& o) {
  core::Sequential features;
  features.add_module("conv0", Conv2d(o.in_channels, o.first, 7, {.stride = 2, .padding = 3, .bias = false}));
  features.add_module("norm0", BatchNorm2d(o.first));
  features.add_module("relu0", core::ReLU({.inplace = true}));
  features.add_module("pool0", core::MaxPool2d(3, {.stride = 2, .padding = 1}));
  std::int64_t width = o.first;
  for (std::size_t i = 0; i < o.depths.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    features.add_module("denseblock" + number, _DenseBlock({o.depths[i], width}, o));
    width += o.depths[i] * o.growth;
    if (i + 1 == o.depths.size()) break;
    features.add_module("transition" + number, _Transition(width));
    width /= 2;
  }
  features.add_module("norm5", BatchNorm2d(width));
  return features;
}

std::int64_t final_width(const DenseNet::Options& o) {
  std::int64_t width = o.first;
  for (std::size_t i = 0; i < o.depths.size(); ++i) {
    width += o.depths[i] * o.growth;
    if (i + 1 < o.depths.size()) width /= 2;
  }
  return width;
}

}  // namespace

DenseNet::DenseNet(const Options& o) : features(make_features(o)), classifier(final_width(o), o.num_classes) {
  detail::init_layers(
      *this, [](Conv2d& conv) { core::init::kaiming_normal_(conv.weight); },
      [](core::Linear& linear) { core::init::zeros_(linear.bias); });
}

void DenseNet::members(core::Members& m) {
  m.child("features", features).child("classifier", classifier);
}

Tensor DenseNet::forward(const Tensor& x) {             // (n, c, 224, 224)
  Tensor h = core::relu(features(x));                   // (n, width, 7, 7)
  h = core::adaptive_avg_pool2d(h, {1, 1}).flatten(1);  // (n, width)
  return classifier(h);                                 // (n, classes)
}

}  // namespace zoo

#include "zoo/squeezenet.h"

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/init.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Conv2d;
using core::Tensor;

namespace {

core::ReLU relu() {
  return core::ReLU({.inplace = true});
}
core::MaxPool2d pool() {
  return core::MaxPool2d(3, {.stride = 2, .ceil_mode = true});
}

struct FireOptions {
  std::int64_t in = 1;
  std::int64_t squeezed = 1;
  std::int64_t expanded = 1;  ///< by each of the two expanding convolutions
};

}  // namespace

/// Few 1 x 1 convolutions, then 1 x 1 and 3 x 3 side by side. (n, in, h, w) -> (n, 2 * expanded, h, w).
struct Fire : core::ModuleOf<Fire> {
  Conv2d squeeze;
  core::ReLU squeeze_activation = relu();
  Conv2d expand1x1;
  core::ReLU expand1x1_activation = relu();
  Conv2d expand3x3;
  core::ReLU expand3x3_activation = relu();

  explicit Fire(const FireOptions& o)
      : squeeze(o.in, o.squeezed, 1),
        expand1x1(o.squeezed, o.expanded, 1),
        expand3x3(o.squeezed, o.expanded, 3, {.padding = 1}) {}
  void members(core::Members& m) override {
    m.child("squeeze", squeeze).child("squeeze_activation", squeeze_activation);
    m.child("expand1x1", expand1x1).child("expand1x1_activation", expand1x1_activation);
    m.child("expand3x3", expand3x3).child("expand3x3_activation", expand3x3_activation);
  }
  Tensor forward(const Tensor& x) {                     // (n, in, h, w)
    Tensor h = squeeze_activation(squeeze(x));          // (n, squeezed, h, w)
    Tensor one = expand1x1_activation(expand1x1(h));    // (n, expanded, h, w)
    Tensor three = expand3x3_activation(expand3x3(h));  // (n, expanded, h, w)
    return core::cat({one, three}, 1);                  // (n, 2 * expanded, h, w)
  }
};

namespace {

Fire fire(std::int64_t in, std::int64_t squeezed, std::int64_t expanded) {
  return Fire({.in = in, .squeezed = squeezed, .expanded = expanded});
}

core::Sequential make_features(SqueezeNet::Version version, std::int64_t in) {
  if (version == SqueezeNet::Version::v1_0) {
    return core::Sequential{Conv2d(in, 96, 7, {.stride = 2}),
                            relu(),
                            pool(),
                            fire(96, 16, 64),
                            fire(128, 16, 64),
                            fire(128, 32, 128),
                            pool(),
                            fire(256, 32, 128),
                            fire(256, 48, 192),
                            fire(384, 48, 192),
                            fire(384, 64, 256),
                            pool(),
                            fire(512, 64, 256)};
  }
  return core::Sequential{Conv2d(in, 64, 3, {.stride = 2}),
                          relu(),
                          pool(),
                          fire(64, 16, 64),
                          fire(128, 16, 64),
                          pool(),
                          fire(128, 32, 128),
                          fire(256, 32, 128),
                          pool(),
                          fire(256, 48, 192),
                          fire(384, 48, 192),
                          fire(384, 64, 256),
                          fire(512, 64, 256)};
}

}  // namespace

SqueezeNet::SqueezeNet(Version version, const Options& o)
    : features(make_features(version, o.in_channels)),
      classifier{core::Dropout(o.dropout), Conv2d(512, o.num_classes, 1), relu(), core::AdaptiveAvgPool2d({1, 1})} {
  const core::Module* last = &classifier[1];
  for (Conv2d* conv : detail::modules_of<Conv2d>(*this)) {
    if (conv == last) {
      core::init::normal_(conv->weight, 0, 0.01);
    } else {
      core::init::kaiming_uniform_(conv->weight);
    }
    core::init::zeros_(conv->bias);
  }
}

void SqueezeNet::members(core::Members& m) {
  m.child("features", features).child("classifier", classifier);
}

Tensor SqueezeNet::forward(const Tensor& x) {  // (n, c, 224, 224)
  return classifier(features(x)).flatten(1);   // (n, classes)
}

}  // namespace zoo

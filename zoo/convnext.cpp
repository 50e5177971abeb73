#include "zoo/convnext.h"

#include <algorithm>
#include <string>

#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Conv2d;
using core::Linear;
using core::Tensor;

/// Layer norm over the channels of (n, c, h, w).
struct LayerNorm2d : core::ModuleOf<LayerNorm2d> {
  core::LayerNorm norm;
  explicit LayerNorm2d(std::int64_t channels) : norm({channels}, {.eps = 1e-6}) {}
  void members(core::Members& m) override { norm.members(m); }
  std::string extra_repr() const override { return norm.extra_repr(); }
  Tensor forward(const Tensor& x) const { return norm.forward(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}); }
};

/// A stem that has LayerNorm2d where others have batch norm.
struct StemNormActivation : detail::SequentialOf<StemNormActivation> {
  StemNormActivation(std::int64_t in, std::int64_t out) {
    push_back(Conv2d(in, out, 4, {.stride = 4}));
    push_back(LayerNorm2d(out));
  }
  std::string class_name() const override { return "Conv2dNormActivation"; }
};

/// (n, width, h, w) -> the same.
struct CNBlock : core::ModuleOf<CNBlock> {
  core::Sequential block;
  core::Parameter layer_scale;  ///< (width, 1, 1)
  detail::StochasticDepth stochastic_depth;

  CNBlock(std::int64_t width, double stochastic, double scale)
      : block{Conv2d(width, width, 7, {.padding = 3, .groups = width}),
              detail::Permute({0, 2, 3, 1}),
              core::LayerNorm({width}, {.eps = 1e-6}),
              Linear(width, 4 * width),
              core::GELU(),
              Linear(4 * width, width),
              detail::Permute({0, 3, 1, 2})},
        layer_scale(core::full({width, 1, 1}, scale, {.dtype = core::default_dtype()})),
        stochastic_depth(stochastic) {}
  void members(core::Members& m) override {
    m.child("block", block).parameter("layer_scale", layer_scale).child("stochastic_depth", stochastic_depth);
  }
  Tensor forward(const Tensor& x) { return stochastic_depth(layer_scale * block(x)) + x; }
};

namespace {

core::Sequential make_features(const ConvNeXt::Options& o) {
  core::Sequential features;
  features.push_back(StemNormActivation(o.in_channels, o.widths[0]));
  std::int64_t total = 0;
  for (std::int64_t depth : o.depths) total += depth;
  std::int64_t done = 0;
  for (std::size_t i = 0; i < o.widths.size(); ++i) {
    core::Sequential stage;
    for (std::int64_t block = 0; block < o.depths[i]; ++block) {
      const double p =
          o.stochastic_depth * static_cast<double>(done++) / static_cast<double>(std::max<std::int64_t>(1, total - 1));
      stage.push_back(CNBlock(o.widths[i], p, o.layer_scale));
    }
    features.push_back(std::move(stage));
    if (i + 1 == o.widths.size()) break;
    core::Sequential half{LayerNorm2d(o.widths[i]), Conv2d(o.widths[i], o.widths[i + 1], 2, {.stride = 2})};
    features.push_back(std::make_shared<core::Sequential>(std::move(half)));
  }
  return features;
}

}  // namespace

ConvNeXt::ConvNeXt(const Options& o)
    : features(make_features(o)),
      avgpool(1),
      classifier{LayerNorm2d(o.widths.back()), core::Flatten(1), Linear(o.widths.back(), o.num_classes)} {
  auto init = [](auto& layer) {
    core::trunc_normal_(layer.weight, {.std = 0.02});
    core::init::zeros_(layer.bias);
  };
  detail::init_layers(
      *this, [&](Conv2d& conv) { init(conv); }, [&](Linear& linear) { init(linear); });
}

void ConvNeXt::members(core::Members& m) {
  m.child("features", features).child("avgpool", avgpool).child("classifier", classifier);
}

Tensor ConvNeXt::forward(const Tensor& x) {  // (n, c, 224, 224)
  return classifier(avgpool(features(x)));   // (n, classes)
}

}  // namespace zoo

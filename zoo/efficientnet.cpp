#include "zoo/efficientnet.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Tensor;
using detail::Act;
using detail::Conv2dNormActivation;

namespace efficientnet {

struct BlockOptions {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t expand = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  double stochastic_depth = 0;
  core::BatchNormOptions norm = {};
};

/// Widen, filter each channel, squeeze and excite, narrow. (n, in, h, w) -> (n, out, h / stride, w / stride).
struct MBConv : core::ModuleOf<MBConv> {
  core::Sequential block;
  detail::StochasticDepth stochastic_depth;
  bool residual;

  explicit MBConv(const BlockOptions& o)
      : stochastic_depth(o.stochastic_depth), residual(o.stride == 1 && o.in == o.out) {
    const std::int64_t hidden = detail::make_divisible(static_cast<double>(o.in * o.expand));
    if (hidden != o.in) {
      block.push_back(Conv2dNormActivation(o.in, hidden, {.kernel = 1, .norm = o.norm, .activation = Act::silu}));
    }
    block.push_back(Conv2dNormActivation(
        hidden, hidden,
        {.kernel = o.kernel, .stride = o.stride, .groups = hidden, .norm = o.norm, .activation = Act::silu}));
    block.push_back(detail::SqueezeExcitation(hidden, {.squeezed = std::max<std::int64_t>(1, o.in / 4),
                                                       .activation = core::SiLU({.inplace = true}),
                                                       .scale_activation = core::Sigmoid()}));
    block.push_back(Conv2dNormActivation(hidden, o.out, {.kernel = 1, .norm = o.norm, .activation = Act::none}));
  }
  void members(core::Members& m) override { m.child("block", block).child("stochastic_depth", stochastic_depth); }
  Tensor forward(const Tensor& x) { return residual ? stochastic_depth(block(x)) + x : block(x); }
};

/// Widen by the filter itself, narrow. (n, in, h, w) -> (n, out, h / stride, w / stride).
struct FusedMBConv : core::ModuleOf<FusedMBConv> {
  core::Sequential block;
  detail::StochasticDepth stochastic_depth;
  bool residual;

  explicit FusedMBConv(const BlockOptions& o)
      : stochastic_depth(o.stochastic_depth), residual(o.stride == 1 && o.in == o.out) {
    const std::int64_t hidden = detail::make_divisible(static_cast<double>(o.in * o.expand));
    const std::int64_t first = hidden == o.in ? o.out : hidden;
    block.push_back(Conv2dNormActivation(
        o.in, first, {.kernel = o.kernel, .stride = o.stride, .norm = o.norm, .activation = Act::silu}));
    if (hidden == o.in) return;
    block.push_back(Conv2dNormActivation(hidden, o.out, {.kernel = 1, .norm = o.norm, .activation = Act::none}));
  }
  void members(core::Members& m) override { m.child("block", block).child("stochastic_depth", stochastic_depth); }
  Tensor forward(const Tensor& x) { return residual ? stochastic_depth(block(x)) + x : block(x); }
};

/// The stages at the width and depth that the options ask for.
std::vector<EfficientNet::Stage> scaled_stages(const EfficientNet::Options& o) {
  std::vector<EfficientNet::Stage> stages = o.stages;
  for (EfficientNet::Stage& stage : stages) {
    if (stage.fused) continue;
    stage.in = detail::make_divisible(static_cast<double>(stage.in) * o.width);
    stage.out = detail::make_divisible(static_cast<double>(stage.out) * o.width);
    stage.depth = static_cast<std::int64_t>(std::ceil(static_cast<double>(stage.depth) * o.depth));
  }
  return stages;
}
std::int64_t last_width(const EfficientNet::Options& o) {
  return o.last_channel != 0 ? o.last_channel : 4 * scaled_stages(o).back().out;
}

core::Sequential make_stage(const EfficientNet::Stage& stage, BlockOptions block,
                            const std::function<double()>& depth) {
  core::Sequential made;
  for (std::int64_t i = 0; i < stage.depth; ++i) {
    block.stochastic_depth = depth();
    if (stage.fused) {
      made.push_back(FusedMBConv(block));
    } else {
      made.push_back(MBConv(block));
    }
    block.in = block.out;
    block.stride = 1;
  }
  return made;
}

core::Sequential make_features(const EfficientNet::Options& o) {
  core::Sequential features;
  const core::BatchNormOptions norm{.eps = o.norm_eps, .momentum = o.norm_momentum};
  const std::vector<EfficientNet::Stage> stages = scaled_stages(o);
  features.push_back(
      Conv2dNormActivation(o.in_channels, stages[0].in, {.stride = 2, .norm = norm, .activation = Act::silu}));
  std::int64_t total = 0, done = 0;
  for (const EfficientNet::Stage& stage : stages) total += stage.depth;
  for (const EfficientNet::Stage& stage : stages) {
    const BlockOptions block{.in = stage.in,
                             .out = stage.out,
                             .expand = stage.expand,
                             .kernel = stage.kernel,
                             .stride = stage.stride,
                             .norm = norm};
    features.push_back(make_stage(
        stage, block, [&] { return o.stochastic_depth * static_cast<double>(done++) / static_cast<double>(total); }));
  }
  features.push_back(
      Conv2dNormActivation(stages.back().out, last_width(o), {.kernel = 1, .norm = norm, .activation = Act::silu}));
  return features;
}

}  // namespace efficientnet

EfficientNet::EfficientNet(const Options& o)
    : features(efficientnet::make_features(o)),
      avgpool(1),
      classifier{core::Dropout(o.dropout, {.inplace = true}),
                 core::Linear(efficientnet::last_width(o), o.num_classes)} {
  detail::init_layers(*this, detail::init_kaiming_fan_out, [](core::Linear& linear) {
    const double range = 1 / std::sqrt(static_cast<double>(linear.out_features));
    core::init::uniform_(linear.weight, -range, range);
    core::init::zeros_(linear.bias);
  });
}

void EfficientNet::members(core::Members& m) {
  m.child("features", features).child("avgpool", avgpool).child("classifier", classifier);
}

Tensor EfficientNet::forward(const Tensor& x) {  // (n, c, h, w)
  Tensor h = avgpool(features(x));               // (n, last width, 1, 1)
  return classifier(h.flatten(1));               // (n, classes)
}

}  // namespace zoo

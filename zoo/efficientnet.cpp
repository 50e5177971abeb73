#include "zoo/efficientnet.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "libcore/base/error.h"
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

struct Stage {
  std::int64_t expand, kernel, stride, in, out, depth;
};
constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},   {6, 5, 2, 24, 40, 2},  {6, 3, 2, 40, 80, 3},
                             {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4}, {6, 3, 1, 192, 320, 1}};

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

std::int64_t scaled_width(std::int64_t channels, const EfficientNet::Options& o) {
  return detail::make_divisible(static_cast<double>(channels) * o.width);
}
std::int64_t scaled_depth(std::int64_t depth, const EfficientNet::Options& o) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(depth) * o.depth));
}
std::int64_t last_width(const EfficientNet::Options& o) {
  return 4 * scaled_width(320, o);
}
core::BatchNormOptions norm_of(const EfficientNet::Options& o) {
  return o.slow_norm ? core::BatchNormOptions{.eps = 0.001, .momentum = 0.01} : core::BatchNormOptions{};
}

core::Sequential make_features(const EfficientNet::Options& o) {
  core::Sequential features;
  const core::BatchNormOptions norm = norm_of(o);
  features.push_back(
      Conv2dNormActivation(o.in_channels, scaled_width(32, o), {.stride = 2, .norm = norm, .activation = Act::silu}));
  std::int64_t total = 0;
  for (const Stage& stage : kStages) total += scaled_depth(stage.depth, o);
  std::int64_t done = 0;
  for (const Stage& stage : kStages) {
    core::Sequential made;
    BlockOptions block{.in = scaled_width(stage.in, o),
                       .out = scaled_width(stage.out, o),
                       .expand = stage.expand,
                       .kernel = stage.kernel,
                       .stride = stage.stride,
                       .norm = norm};
    for (std::int64_t i = 0; i < scaled_depth(stage.depth, o); ++i) {
      block.stochastic_depth = o.stochastic_depth * static_cast<double>(done++) / static_cast<double>(total);
      made.push_back(MBConv(block));
      block.in = block.out;
      block.stride = 1;
    }
    features.push_back(std::move(made));
  }
  features.push_back(
      Conv2dNormActivation(scaled_width(320, o), last_width(o), {.kernel = 1, .norm = norm, .activation = Act::silu}));
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

EfficientNet::Options efficientnet_options(std::int64_t size) {
  switch (size) {
    case 0:
      return {.width = 1.0, .depth = 1.0, .dropout = 0.2};
    case 1:
      return {.width = 1.0, .depth = 1.1, .dropout = 0.2};
    case 2:
      return {.width = 1.1, .depth = 1.2, .dropout = 0.3};
    case 3:
      return {.width = 1.2, .depth = 1.4, .dropout = 0.3};
    case 4:
      return {.width = 1.4, .depth = 1.8, .dropout = 0.4};
    case 5:
      return {.width = 1.6, .depth = 2.2, .dropout = 0.4, .slow_norm = true};
    case 6:
      return {.width = 1.8, .depth = 2.6, .dropout = 0.5, .slow_norm = true};
    case 7:
      return {.width = 2.0, .depth = 3.1, .dropout = 0.5, .slow_norm = true};
    default:
      throw core::Error(core::ErrorCode::value, "EfficientNet is B0 to B7, not B" + std::to_string(size));
  }
}

}  // namespace zoo

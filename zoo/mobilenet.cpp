#include "zoo/mobilenet.h"

#include <algorithm>
#include <span>
#include <vector>

#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Tensor;
using detail::Act;
using detail::Conv2dNormActivation;
using detail::make_divisible;

namespace mobilenet_v2 {

struct BlockOptions {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t stride = 1;
  std::int64_t expand = 1;
};

/// Widen by 1 x 1, filter each channel by 3 x 3, narrow by 1 x 1. (n, in, h, w) -> (n, out, h / stride, w / stride).
struct InvertedResidual : core::ModuleOf<InvertedResidual> {
  core::Sequential conv;
  bool residual;

  explicit InvertedResidual(const BlockOptions& o) : residual(o.stride == 1 && o.in == o.out) {
    const std::int64_t hidden = o.in * o.expand;
    if (o.expand != 1) {
      conv.push_back(Conv2dNormActivation(o.in, hidden, {.kernel = 1, .activation = Act::relu6}));
    }
    conv.push_back(
        Conv2dNormActivation(hidden, hidden, {.stride = o.stride, .groups = hidden, .activation = Act::relu6}));
    conv.push_back(core::Conv2d(hidden, o.out, 1, {.bias = false}));
    conv.push_back(core::BatchNorm2d(o.out));
  }
  void members(core::Members& m) override { m.child("conv", conv); }
  Tensor forward(const Tensor& x) { return residual ? x + conv(x) : conv(x); }
};

std::int64_t last_width(const MobileNetV2::Options& o) {
  return make_divisible(1280 * std::max(1.0, o.width_mult), o.round_nearest);
}

core::Sequential make_features(const MobileNetV2::Options& o) {
  core::Sequential features;
  std::int64_t in = make_divisible(32 * o.width_mult, o.round_nearest);
  features.push_back(Conv2dNormActivation(o.in_channels, in, {.stride = 2, .activation = Act::relu6}));
  for (const MobileNetV2::Stage& stage : o.stages) {
    const std::int64_t out = make_divisible(static_cast<double>(stage.width) * o.width_mult, o.round_nearest);
    for (std::int64_t i = 0; i < stage.depth; ++i) {
      features.push_back(
          InvertedResidual({.in = in, .out = out, .stride = i == 0 ? stage.stride : 1, .expand = stage.expand}));
      in = out;
    }
  }
  features.push_back(Conv2dNormActivation(in, last_width(o), {.kernel = 1, .activation = Act::relu6}));
  return features;
}

}  // namespace mobilenet_v2

MobileNetV2::MobileNetV2(const Options& o)
    : features(mobilenet_v2::make_features(o)),
      classifier{core::Dropout(o.dropout), core::Linear(mobilenet_v2::last_width(o), o.num_classes)} {
  detail::init_layers(*this, detail::init_kaiming_fan_out,
                      [](core::Linear& linear) { detail::init_normal(linear, 0.01); });
}

void MobileNetV2::members(core::Members& m) {
  m.child("features", features).child("classifier", classifier);
}

Tensor MobileNetV2::forward(const Tensor& x) {                // (n, c, 224, 224)
  Tensor h = core::adaptive_avg_pool2d(features(x), {1, 1});  // (n, 1280, 1, 1)
  return classifier(h.flatten(1));                            // (n, classes)
}

namespace mobilenet_v3 {

struct BlockOptions {
  std::int64_t in, kernel, hidden, out;
  bool squeeze;  ///< with squeeze and excitation
  Act activation;
  std::int64_t stride;
  bool last_stage;  ///< dilated in segmentation models
  std::int64_t dilation = 1;
};

constexpr BlockOptions kLarge[] = {
    {16, 3, 16, 16, false, Act::relu, 1, false},       {16, 3, 64, 24, false, Act::relu, 2, false},
    {24, 3, 72, 24, false, Act::relu, 1, false},       {24, 5, 72, 40, true, Act::relu, 2, false},
    {40, 5, 120, 40, true, Act::relu, 1, false},       {40, 5, 120, 40, true, Act::relu, 1, false},
    {40, 3, 240, 80, false, Act::hardswish, 2, false}, {80, 3, 200, 80, false, Act::hardswish, 1, false},
    {80, 3, 184, 80, false, Act::hardswish, 1, false}, {80, 3, 184, 80, false, Act::hardswish, 1, false},
    {80, 3, 480, 112, true, Act::hardswish, 1, false}, {112, 3, 672, 112, true, Act::hardswish, 1, false},
    {112, 5, 672, 160, true, Act::hardswish, 2, true}, {160, 5, 960, 160, true, Act::hardswish, 1, true},
    {160, 5, 960, 160, true, Act::hardswish, 1, true},
};
constexpr BlockOptions kSmall[] = {
    {16, 3, 16, 16, true, Act::relu, 2, false},       {16, 3, 72, 24, false, Act::relu, 2, false},
    {24, 3, 88, 24, false, Act::relu, 1, false},      {24, 5, 96, 40, true, Act::hardswish, 2, false},
    {40, 5, 240, 40, true, Act::hardswish, 1, false}, {40, 5, 240, 40, true, Act::hardswish, 1, false},
    {40, 5, 120, 48, true, Act::hardswish, 1, false}, {48, 5, 144, 48, true, Act::hardswish, 1, false},
    {48, 5, 288, 96, true, Act::hardswish, 2, true},  {96, 5, 576, 96, true, Act::hardswish, 1, true},
    {96, 5, 576, 96, true, Act::hardswish, 1, true},
};

/// As v2's, with squeeze and excitation where the table says so.
struct InvertedResidual : core::ModuleOf<InvertedResidual> {
  core::Sequential block;
  bool residual;

  InvertedResidual(const BlockOptions& o, const core::BatchNormOptions& norm)
      : residual(o.stride == 1 && o.in == o.out) {
    if (o.hidden != o.in) {
      block.push_back(Conv2dNormActivation(o.in, o.hidden, {.kernel = 1, .norm = norm, .activation = o.activation}));
    }
    block.push_back(Conv2dNormActivation(o.hidden, o.hidden,
                                         {.kernel = o.kernel,
                                          .stride = o.dilation > 1 ? 1 : o.stride,
                                          .groups = o.hidden,
                                          .dilation = o.dilation,
                                          .norm = norm,
                                          .activation = o.activation}));
    if (o.squeeze) {
      block.push_back(
          detail::SqueezeExcitation(o.hidden, {.squeezed = make_divisible(static_cast<double>(o.hidden / 4)),
                                               .activation = core::ReLU(),
                                               .scale_activation = core::Hardsigmoid()}));
    }
    block.push_back(Conv2dNormActivation(o.hidden, o.out, {.kernel = 1, .norm = norm, .activation = Act::none}));
  }
  void members(core::Members& m) override { m.child("block", block); }
  Tensor forward(const Tensor& x) { return residual ? block(x) + x : block(x); }
};

std::vector<BlockOptions> given_blocks(const std::vector<MobileNetV3::Block>& given) {
  std::vector<BlockOptions> blocks;
  for (const MobileNetV3::Block& b : given) {
    const Act act = b.hardswish ? Act::hardswish : Act::relu;
    blocks.push_back({b.in, b.kernel, b.hidden, b.out, b.squeeze, act, b.stride, false, b.dilation});
  }
  return blocks;
}

/// Those that are given, else those of a size with the widths and the dilation that the options ask for.
std::vector<BlockOptions> blocks(MobileNetV3::Size size, const MobileNetV3::Options& o) {
  if (!o.blocks.empty()) return given_blocks(o.blocks);
  const auto table = size == MobileNetV3::Size::small ? std::span<const BlockOptions>(kSmall) : kLarge;
  std::vector<BlockOptions> blocks(table.begin(), table.end());
  for (BlockOptions& block : blocks) {
    if (block.last_stage && o.dilated) block.dilation = 2;
    if (block.last_stage && o.reduced_tail) {
      const bool first = block.in != block.out;
      block.out /= 2;
      if (!first) block.in /= 2;
      if (!first) block.hidden /= 2;
    }
    for (std::int64_t* width : {&block.in, &block.hidden, &block.out}) {
      *width = make_divisible(static_cast<double>(*width) * o.width_mult);
    }
  }
  return blocks;
}

/// Channels behind the features.
std::int64_t last_conv(MobileNetV3::Size size, const MobileNetV3::Options& o) {
  return 6 * blocks(size, o).back().out;
}

/// Width of the layer before the classifier.
std::int64_t last_width(MobileNetV3::Size size, const MobileNetV3::Options& o) {
  if (o.last_channel != 0) return o.last_channel;
  const std::int64_t width = (size == MobileNetV3::Size::small ? 1024 : 1280) / (o.reduced_tail ? 2 : 1);
  return make_divisible(static_cast<double>(width) * o.width_mult);
}

core::Sequential make_features(MobileNetV3::Size size, const MobileNetV3::Options& o) {
  const std::vector<BlockOptions> all = blocks(size, o);
  const core::BatchNormOptions norm{.eps = o.norm_eps, .momentum = 0.01};
  core::Sequential features;
  features.push_back(
      Conv2dNormActivation(o.in_channels, all[0].in, {.stride = 2, .norm = norm, .activation = Act::hardswish}));
  for (const BlockOptions& block : all) features.push_back(InvertedResidual(block, norm));
  features.push_back(Conv2dNormActivation(all.back().out, 6 * all.back().out,
                                          {.kernel = 1, .norm = norm, .activation = Act::hardswish}));
  return features;
}

}  // namespace mobilenet_v3

MobileNetV3::MobileNetV3(Size size, const Options& o)
    : features(mobilenet_v3::make_features(size, o)),
      avgpool(1),
      classifier{core::Linear(mobilenet_v3::last_conv(size, o), mobilenet_v3::last_width(size, o)),
                 core::Hardswish({.inplace = true}), core::Dropout(o.dropout, {.inplace = true}),
                 core::Linear(mobilenet_v3::last_width(size, o), o.num_classes)} {
  detail::init_layers(*this, detail::init_kaiming_fan_out,
                      [](core::Linear& linear) { detail::init_normal(linear, 0.01); });
}

void MobileNetV3::members(core::Members& m) {
  m.child("features", features).child("avgpool", avgpool).child("classifier", classifier);
}

Tensor MobileNetV3::forward(const Tensor& x) {  // (n, c, 224, 224)
  Tensor h = avgpool(features(x));              // (n, 576 or 960, 1, 1)
  return classifier(h.flatten(1));              // (n, classes)
}

}  // namespace zoo

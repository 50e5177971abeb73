#include "zoo/regnet.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Tensor;
using detail::Act;
using detail::Conv2dNormActivation;

namespace {

struct BlockOptions {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t stride = 1;
  std::int64_t group = 1;
  double squeeze = 0;
};

}  // namespace

/// 1 x 1, grouped 3 x 3, squeeze and excitation, 1 x 1. (n, in, h, w) -> (n, out, h / stride, w / stride).
struct BottleneckTransform : detail::SequentialOf<BottleneckTransform> {
  explicit BottleneckTransform(const BlockOptions& o) {
    add_module("a", Conv2dNormActivation(o.in, o.out, {.kernel = 1}));
    add_module("b", Conv2dNormActivation(o.out, o.out, {.stride = o.stride, .groups = o.out / o.group}));
    if (o.squeeze > 0) {
      // Python's round(): halves go to the even number, as they do here in the default rounding mode.
      const auto squeezed = static_cast<std::int64_t>(std::nearbyint(o.squeeze * static_cast<double>(o.in)));
      add_module("se",
                 detail::SqueezeExcitation(
                     o.out, {.squeezed = squeezed, .activation = core::ReLU(), .scale_activation = core::Sigmoid()}));
    }
    add_module("c", Conv2dNormActivation(o.out, o.out, {.kernel = 1, .activation = Act::none}));
  }
};

struct ResBottleneckBlock : core::ModuleOf<ResBottleneckBlock> {
  std::shared_ptr<Conv2dNormActivation> proj;
  BottleneckTransform f;
  core::ReLU activation;

  explicit ResBottleneckBlock(const BlockOptions& o) : proj(projection(o)), f(o), activation({.inplace = true}) {}
  static std::shared_ptr<Conv2dNormActivation> projection(const BlockOptions& o) {
    if (o.in == o.out && o.stride == 1) return nullptr;
    return std::make_shared<Conv2dNormActivation>(
        o.in, o.out, detail::ConvNormActOptions{.kernel = 1, .stride = o.stride, .activation = Act::none});
  }
  void members(core::Members& m) override {
    if (proj) m.child("proj", proj);
    m.child("f", f).child("activation", activation);
  }
  Tensor forward(const Tensor& x) { return activation((proj ? (*proj)(x) : x) + f(x)); }
};

struct AnyStage : detail::SequentialOf<AnyStage> {};

std::vector<RegNet::Stage> RegNet::stages(const Options& o) {
  // In float, as torchvision computes them: a width near a boundary must fall to the same side.
  std::vector<std::int64_t> widths;
  for (std::int64_t i = 0; i < o.depth; ++i) {
    const float line = static_cast<float>(i) * static_cast<float>(o.slope) + static_cast<float>(o.first);
    const float power =
        std::nearbyint(std::log(line / static_cast<float>(o.first)) / static_cast<float>(std::log(o.step)));
    const float width = static_cast<float>(o.first) * std::pow(static_cast<float>(o.step), power);
    widths.push_back(static_cast<std::int64_t>(std::nearbyint(width / 8) * 8));
  }
  std::vector<Stage> found;
  for (std::int64_t width : widths) {
    if (found.empty() || found.back().width != width) found.push_back({width, 0, o.group});
    ++found.back().depth;
  }
  for (Stage& stage : found) {
    stage.group = std::min(stage.group, stage.width);
    stage.width = detail::make_divisible(static_cast<double>(stage.width), stage.group);
  }
  return found;
}

namespace {

core::Sequential make_trunk(const RegNet::Options& o) {
  core::Sequential trunk;
  std::int64_t in = o.stem;
  std::int64_t number = 1;
  for (const RegNet::Stage& stage : RegNet::stages(o)) {
    const std::string name = "block" + std::to_string(number++);
    AnyStage made;
    BlockOptions block{.in = in, .out = stage.width, .stride = 2, .group = stage.group, .squeeze = o.squeeze};
    for (std::int64_t i = 0; i < stage.depth; ++i) {
      made.add_module(name + "-" + std::to_string(i), ResBottleneckBlock(block));
      block.in = stage.width;
      block.stride = 1;
    }
    trunk.add_module(name, std::move(made));
    in = stage.width;
  }
  return trunk;
}

}  // namespace

RegNet::RegNet(const Options& o)
    : stem(o.in_channels, o.stem, detail::ConvNormActOptions{.stride = 2}),
      trunk_output(make_trunk(o)),
      avgpool({1, 1}),
      fc(stages(o).back().width, o.num_classes) {
  detail::init_layers(
      *this,
      [](core::Conv2d& conv) {
        const auto fan_out = static_cast<double>(conv.kernel_size.h() * conv.kernel_size.w() * conv.out_channels);
        core::init::normal_(conv.weight, 0, std::sqrt(2.0 / fan_out));
      },
      [](core::Linear& linear) { detail::init_normal(linear, 0.01); });
}

void RegNet::members(core::Members& m) {
  m.child("stem", stem).child("trunk_output", trunk_output).child("avgpool", avgpool).child("fc", fc);
}

Tensor RegNet::forward(const Tensor& x) {     // (n, c, 224, 224)
  Tensor h = avgpool(trunk_output(stem(x)));  // (n, width, 1, 1)
  return fc(h.flatten(1));                    // (n, classes)
}

}  // namespace zoo

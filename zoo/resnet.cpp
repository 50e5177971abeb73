#include "zoo/resnet.h"

#include <utility>

#include "libcore/module/init.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::BatchNorm2d;
using core::Conv2d;
using core::Tensor;

namespace {

struct BlockOptions {
  std::int64_t in = 64;
  std::int64_t planes = 64;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
  std::int64_t dilation = 1;
};

Conv2d conv3x3(std::int64_t in, std::int64_t out, const BlockOptions& o) {
  return Conv2d(in, out, 3,
                {.stride = o.stride, .padding = o.dilation, .dilation = o.dilation, .groups = o.groups, .bias = false});
}

Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
  return Conv2d(in, out, 1, {.stride = stride, .bias = false});
}

}  // namespace

/// Two 3 x 3 convolutions. (n, in, h, w) -> (n, planes, h / stride, w / stride).
struct BasicBlock : core::ModuleOf<BasicBlock> {
  static constexpr std::int64_t kExpansion = 1;
  Conv2d conv1;
  BatchNorm2d bn1;
  core::ReLU relu;
  Conv2d conv2;
  BatchNorm2d bn2;
  std::shared_ptr<core::Sequential> downsample;

  BasicBlock(const BlockOptions& o, std::shared_ptr<core::Sequential> shortcut)
      : conv1(conv3x3(o.in, o.planes, o)),
        bn1(o.planes),
        relu({.inplace = true}),
        conv2(conv3x3(o.planes, o.planes, {})),
        bn2(o.planes),
        downsample(std::move(shortcut)) {}
  void members(core::Members& m) override {
    m.child("conv1", conv1).child("bn1", bn1).child("relu", relu).child("conv2", conv2).child("bn2", bn2);
    if (downsample) m.child("downsample", downsample);
  }
  Tensor forward(const Tensor& x) {                        // (n, in, h, w)
    Tensor h = relu(bn1(conv1(x)));                        // (n, planes, h / s, w / s)
    h = bn2(conv2(h));                                     // (n, planes, h / s, w / s)
    return relu(h + (downsample ? (*downsample)(x) : x));  // the same
  }
};

/// 1 x 1, 3 x 3, 1 x 1. (n, in, h, w) -> (n, 4 * planes, h / stride, w / stride).
struct Bottleneck : core::ModuleOf<Bottleneck> {
  static constexpr std::int64_t kExpansion = 4;
  std::int64_t width;
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  core::ReLU relu;
  std::shared_ptr<core::Sequential> downsample;

  Bottleneck(const BlockOptions& o, std::shared_ptr<core::Sequential> shortcut)
      : width(o.planes * o.width_per_group / 64 * o.groups),
        conv1(conv1x1(o.in, width)),
        bn1(width),
        conv2(conv3x3(width, width, o)),
        bn2(width),
        conv3(conv1x1(width, o.planes * kExpansion)),
        bn3(o.planes * kExpansion),
        relu({.inplace = true}),
        downsample(std::move(shortcut)) {}
  void members(core::Members& m) override {
    m.child("conv1", conv1).child("bn1", bn1).child("conv2", conv2).child("bn2", bn2);
    m.child("conv3", conv3).child("bn3", bn3).child("relu", relu);
    if (downsample) m.child("downsample", downsample);
  }
  Tensor forward(const Tensor& x) {                        // (n, in, h, w)
    Tensor h = relu(bn1(conv1(x)));                        // (n, width, h, w)
    h = relu(bn2(conv2(h)));                               // (n, width, h / s, w / s)
    h = bn3(conv3(h));                                     // (n, 4 * planes, h / s, w / s)
    return relu(h + (downsample ? (*downsample)(x) : x));  // the same
  }
};

/// Makes the stages one after the other; remembers what the last one gave.
class ResNetStages {
 public:
  explicit ResNetStages(const ResNet::Options& options) : options_(options) {}

  core::Sequential next() { return options_.bottleneck ? make<Bottleneck>() : make<BasicBlock>(); }

 private:
  template <class Block>
  core::Sequential make() {
    const std::int64_t planes = std::int64_t{64} << stage_;
    BlockOptions block{.in = in_,
                       .planes = planes,
                       .stride = stage_ == 0 ? 1 : 2,
                       .groups = options_.groups,
                       .width_per_group = options_.width_per_group,
                       .dilation = dilation_};
    if (stage_ > 0 && options_.dilate[stage_ - 1]) {
      dilation_ *= block.stride;
      block.stride = 1;
    }
    const std::int64_t out = planes * Block::kExpansion;
    std::shared_ptr<core::Sequential> shortcut;
    if (block.stride != 1 || in_ != out) {
      shortcut = std::make_shared<core::Sequential>();
      shortcut->push_back(conv1x1(in_, out, block.stride));
      shortcut->push_back(BatchNorm2d(out));
    }
    core::Sequential stage(Block(block, std::move(shortcut)));
    block.in = in_ = out;
    block.stride = 1;
    block.dilation = dilation_;
    for (std::int64_t i = 1; i < options_.depths[stage_]; ++i) stage.push_back(Block(block, nullptr));
    ++stage_;
    return stage;
  }

  const ResNet::Options& options_;
  std::size_t stage_ = 0;
  std::int64_t in_ = 64;
  std::int64_t dilation_ = 1;
};

ResNet::ResNet(const Options& o) : ResNet(o, ResNetStages(o)) {}

// The order of the members is that in which parameters are drawn.
ResNet::ResNet(const Options& o, ResNetStages&& stages)
    : conv1(o.in_channels, 64, 7, {.stride = 2, .padding = 3, .bias = false}),
      bn1(64),
      relu({.inplace = true}),
      maxpool(3, {.stride = 2, .padding = 1}),
      layer1(stages.next()),
      layer2(stages.next()),
      layer3(stages.next()),
      layer4(stages.next()),
      avgpool({1, 1}),
      fc((o.bottleneck ? Bottleneck::kExpansion : BasicBlock::kExpansion) * 512, o.num_classes) {
  detail::init_layers(*this, detail::init_kaiming_fan_out, [](core::Linear&) {});
  if (!o.zero_init_residual) return;
  for (Bottleneck* block : detail::modules_of<Bottleneck>(*this)) core::init::zeros_(block->bn3.weight);
  for (BasicBlock* block : detail::modules_of<BasicBlock>(*this)) core::init::zeros_(block->bn2.weight);
}

void ResNet::members(core::Members& m) {
  m.child("conv1", conv1).child("bn1", bn1).child("relu", relu).child("maxpool", maxpool);
  m.child("layer1", layer1).child("layer2", layer2).child("layer3", layer3).child("layer4", layer4);
  m.child("avgpool", avgpool).child("fc", fc);
}

Tensor ResNet::forward(const Tensor& x) {   // (n, c, 224, 224)
  Tensor h = maxpool(relu(bn1(conv1(x))));  // (n, 64, 56, 56)
  h = layer4(layer3(layer2(layer1(h))));    // (n, 512 or 2048, 7, 7)
  return fc(avgpool(h).flatten(1));         // (n, classes)
}

}  // namespace zoo

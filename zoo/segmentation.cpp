#include "zoo/segmentation.h"

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::BatchNorm2d;
using core::Conv2d;
using core::ReLU;
using core::Tensor;

namespace segmentation {

/// A ResNet up to its last feature map. (n, c, h, w) -> (n, 2048, h / 8, w / 8).
struct IntermediateLayerGetter : core::ModuleOf<IntermediateLayerGetter> {
  ResNet net;
  explicit IntermediateLayerGetter(const ResNet::Options& options) : net(options) {}
  int version() const override { return 2; }
  void members(core::Members& m) override {
    m.child("conv1", net.conv1).child("bn1", net.bn1).child("relu", net.relu).child("maxpool", net.maxpool);
    m.child("layer1", net.layer1).child("layer2", net.layer2).child("layer3", net.layer3).child("layer4", net.layer4);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = net.maxpool(net.relu(net.bn1(net.conv1(x))));
    return net.layer4(net.layer3(net.layer2(net.layer1(h))));
  }
};

Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t dilation) {
  return Conv2d(in, out, 3, {.padding = dilation, .dilation = dilation, .bias = false});
}
Conv2d conv1x1(std::int64_t in, std::int64_t out) {
  return Conv2d(in, out, 1, {.bias = false});
}

struct FCNHead : detail::SequentialOf<FCNHead> {
  FCNHead(std::int64_t in, std::int64_t classes) {
    push_back(conv(in, in / 4, 1));
    push_back(BatchNorm2d(in / 4));
    push_back(ReLU());
    push_back(core::Dropout(0.1));
    push_back(Conv2d(in / 4, classes, 1));
  }
};

struct ASPPConv : detail::SequentialOf<ASPPConv> {
  ASPPConv(std::int64_t in, std::int64_t out, std::int64_t dilation) {
    push_back(conv(in, out, dilation));
    push_back(BatchNorm2d(out));
    push_back(ReLU());
  }
};

/// The mean of the whole image, everywhere.
struct ASPPPooling : detail::SequentialOf<ASPPPooling> {
  ASPPPooling(std::int64_t in, std::int64_t out) {
    push_back(core::AdaptiveAvgPool2d(1));
    push_back(conv1x1(in, out));
    push_back(BatchNorm2d(out));
    push_back(ReLU());
  }
  Tensor forward(const Tensor& x) {
    Tensor mean = SequentialOf::forward(x);  // (n, out, 1, 1)
    return mean.expand({mean.size(0), mean.size(1), x.size(2), x.size(3)});
  }
};

/// Five views of different reach, side by side. (n, in, h, w) -> (n, 256, h, w).
struct ASPP : core::ModuleOf<ASPP> {
  core::ModuleList convs;
  core::Sequential project;

  explicit ASPP(std::int64_t in) {
    constexpr std::int64_t kOut = 256;
    convs.push_back(std::make_shared<core::Sequential>(core::Sequential{conv1x1(in, kOut), BatchNorm2d(kOut), ReLU()}));
    for (std::int64_t dilation : {12, 24, 36}) convs.push_back(ASPPConv(in, kOut, dilation));
    convs.push_back(ASPPPooling(in, kOut));
    project = core::Sequential{conv1x1(5 * kOut, kOut), BatchNorm2d(kOut), ReLU(), core::Dropout(0.5)};
  }
  void members(core::Members& m) override { m.child("convs", convs).child("project", project); }
  Tensor forward(const Tensor& x) {
    std::vector<Tensor> views;
    for (const auto& entry : convs) views.push_back(entry.second->call(x));
    return project(core::cat(views, 1));
  }
};

struct DeepLabHead : detail::SequentialOf<DeepLabHead> {
  DeepLabHead(std::int64_t in, std::int64_t classes) {
    push_back(ASPP(in));
    push_back(conv(256, 256, 1));
    push_back(BatchNorm2d(256));
    push_back(ReLU());
    push_back(Conv2d(256, classes, 1));
  }
};

ResNet::Options backbone_options(const SegmentationOptions& o) {
  ResNet::Options options = o.backbone;
  options.bottleneck = true;
  options.dilate = {false, true, true};
  options.in_channels = o.in_channels;
  return options;
}

template <class Derived, class Head>
struct ModelOf : core::ModuleOf<Derived> {
  IntermediateLayerGetter backbone;
  Head classifier;
  explicit ModelOf(const SegmentationOptions& o)
      : core::ModuleOf<Derived>(core::OnBehalf()), backbone(backbone_options(o)), classifier(2048, o.num_classes) {}
  void members(core::Members& m) override { m.child("backbone", backbone).child("classifier", classifier); }
  Tensor forward(const Tensor& x) {
    Tensor h = classifier(backbone(x));  // (n, classes, h / 8, w / 8)
    return core::interpolate(h, {.size = {x.size(2), x.size(3)}, .mode = "bilinear"});
  }
};

}  // namespace segmentation

struct FCN : segmentation::ModelOf<FCN, segmentation::FCNHead> {
  using ModelOf::ModelOf;
};
struct DeepLabV3 : segmentation::ModelOf<DeepLabV3, segmentation::DeepLabHead> {
  using ModelOf::ModelOf;
};

std::shared_ptr<core::Module> make_fcn(const SegmentationOptions& options) {
  return std::make_shared<FCN>(options);
}

std::shared_ptr<core::Module> make_deeplabv3(const SegmentationOptions& options) {
  return std::make_shared<DeepLabV3>(options);
}

}  // namespace zoo

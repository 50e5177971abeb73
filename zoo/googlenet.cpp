#include "zoo/googlenet.h"

#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Tensor;

namespace googlenet {

namespace {

core::Conv2dLayerOptions without_bias(core::Conv2dLayerOptions options) {
  options.bias = false;
  return options;
}

}  // namespace

BasicConv2d::BasicConv2d(std::int64_t in, std::int64_t out, core::Size2 kernel, const core::Conv2dLayerOptions& options)
    : conv(in, out, kernel, without_bias(options)), bn(out, {.eps = 0.001}) {}

Tensor BasicConv2d::forward(const Tensor& x) {
  return core::relu(bn(conv(x)));
}

/// Four branches side by side. (n, in, h, w) -> (n, one + three + five + pooled, h, w).
struct Inception : core::ModuleOf<Inception> {
  BasicConv2d branch1;
  core::Sequential branch2, branch3, branch4;

  explicit Inception(const Widths& w)
      : branch1(w.in, w.one, 1),
        branch2{BasicConv2d(w.in, w.three_reduced, 1), BasicConv2d(w.three_reduced, w.three, 3, {.padding = 1})},
        // The original has 5 x 5 here; torchvision's published weights are of 3 x 3.
        branch3{BasicConv2d(w.in, w.five_reduced, 1), BasicConv2d(w.five_reduced, w.five, 3, {.padding = 1})},
        branch4{core::MaxPool2d(3, {.stride = 1, .padding = 1, .ceil_mode = true}), BasicConv2d(w.in, w.pooled, 1)} {}
  void members(core::Members& m) override {
    m.child("branch1", branch1).child("branch2", branch2).child("branch3", branch3).child("branch4", branch4);
  }
  Tensor forward(const Tensor& x) { return core::cat({branch1(x), branch2(x), branch3(x), branch4(x)}, 1); }
};

InceptionAux::InceptionAux(std::int64_t in, std::int64_t classes, double p)
    : conv(in, 128, 1), fc1(2048, 1024), fc2(1024, classes), dropout(p) {}

void InceptionAux::members(core::Members& m) {
  m.child("conv", conv).child("fc1", fc1).child("fc2", fc2).child("dropout", dropout);
}

Tensor InceptionAux::forward(const Tensor& x) {           // (n, in, 14, 14)
  Tensor h = conv(core::adaptive_avg_pool2d(x, {4, 4}));  // (n, 128, 4, 4)
  h = core::relu(fc1(h.flatten(1)));                      // (n, 1024)
  return fc2(dropout(h));                                 // (n, classes)
}

Tensor as_first_trained(const Tensor& x) {
  const std::vector<double> scales = {0.229 / 0.5, 0.224 / 0.5, 0.225 / 0.5};
  const std::vector<double> shifts = {(0.485 - 0.5) / 0.5, (0.456 - 0.5) / 0.5, (0.406 - 0.5) / 0.5};
  auto beside = [&](const std::vector<double>& values) {
    return core::from_values(values).view({1, 3, 1, 1}).to(x.device(), x.dtype());
  };
  return x * beside(scales) + beside(shifts);
}

}  // namespace googlenet

namespace {

GoogLeNet::Block block(const googlenet::Widths& widths) {
  return std::make_shared<googlenet::Inception>(widths);
}

std::shared_ptr<googlenet::InceptionAux> head(const GoogLeNet::Options& o, std::int64_t in) {
  return o.aux_logits ? std::make_shared<googlenet::InceptionAux>(in, o.num_classes, o.dropout_aux) : nullptr;
}

core::MaxPool2d pool(std::int64_t kernel) {
  return core::MaxPool2d(kernel, {.stride = 2, .ceil_mode = true});
}

}  // namespace

GoogLeNet::GoogLeNet(const Options& o)
    : conv1(o.in_channels, 64, 7, {.stride = 2, .padding = 3}),
      maxpool1(pool(3)),
      conv2(64, 64, 1),
      conv3(64, 192, 3, {.padding = 1}),
      maxpool2(pool(3)),
      inception3a(block({192, 64, 96, 128, 16, 32, 32})),
      inception3b(block({256, 128, 128, 192, 32, 96, 64})),
      maxpool3(pool(3)),
      inception4a(block({480, 192, 96, 208, 16, 48, 64})),
      inception4b(block({512, 160, 112, 224, 24, 64, 64})),
      inception4c(block({512, 128, 128, 256, 24, 64, 64})),
      inception4d(block({512, 112, 144, 288, 32, 64, 64})),
      inception4e(block({528, 256, 160, 320, 32, 128, 128})),
      maxpool4(pool(2)),
      inception5a(block({832, 256, 160, 320, 32, 128, 128})),
      inception5b(block({832, 384, 192, 384, 48, 128, 128})),
      aux1(head(o, 512)),
      aux2(head(o, 528)),
      avgpool({1, 1}),
      dropout(o.dropout),
      fc(1024, o.num_classes),
      transform_input(o.transform_input) {
  detail::init_layers(
      *this, [](core::Conv2d& conv) { core::trunc_normal_(conv.weight, {.std = 0.01}); },
      [](core::Linear& linear) { core::trunc_normal_(linear.weight, {.std = 0.01}); });
}

void GoogLeNet::members(core::Members& m) {
  m.child("conv1", conv1).child("maxpool1", maxpool1).child("conv2", conv2).child("conv3", conv3);
  m.child("maxpool2", maxpool2).child("inception3a", inception3a).child("inception3b", inception3b);
  m.child("maxpool3", maxpool3).child("inception4a", inception4a).child("inception4b", inception4b);
  m.child("inception4c", inception4c).child("inception4d", inception4d).child("inception4e", inception4e);
  m.child("maxpool4", maxpool4).child("inception5a", inception5a).child("inception5b", inception5b);
  if (aux1) m.child("aux1", aux1).child("aux2", aux2);
  m.child("avgpool", avgpool).child("dropout", dropout).child("fc", fc);
}

GoogLeNet::Outputs GoogLeNet::run(const Tensor& x, bool heads) {  // (n, c, 224, 224)
  heads = heads && aux1;
  Outputs out;
  Tensor h = transform_input ? googlenet::as_first_trained(x) : x;
  h = maxpool1(conv1(h));                                 // (n, 64, 56, 56)
  h = maxpool2(conv3(conv2(h)));                          // (n, 192, 28, 28)
  h = maxpool3((*inception3b)((*inception3a)(h)));        // (n, 480, 14, 14)
  h = (*inception4a)(h);                                  // (n, 512, 14, 14)
  if (heads) out.aux_logits1 = (*aux1)(h);                // (n, classes)
  h = (*inception4d)((*inception4c)((*inception4b)(h)));  // (n, 528, 14, 14)
  if (heads) out.aux_logits2 = (*aux2)(h);                // (n, classes)
  h = maxpool4((*inception4e)(h));                        // (n, 832, 7, 7)
  h = (*inception5b)((*inception5a)(h));                  // (n, 1024, 7, 7)
  out.logits = fc(dropout(avgpool(h).flatten(1)));        // (n, classes)
  return out;
}

}  // namespace zoo

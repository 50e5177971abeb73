#include "zoo/unet.h"

#include "libcore/module/activation.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/image.h"
#include "libcore/module/norm.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pad.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Tensor;

namespace unet {

DoubleConv::DoubleConv(std::int64_t in, std::int64_t middle, std::int64_t out, const UNetOptions& o) {
  auto add = [&](std::int64_t from, std::int64_t to) {
    double_conv.push_back(core::Conv2d(from, to, 3, {.padding = 1, .bias = o.conv_bias}));
    double_conv.push_back(core::BatchNorm2d(to));
    double_conv.push_back(core::ReLU({.inplace = true}));
  };
  add(in, middle);
  add(middle, out);
}

Down::Down(std::int64_t in, std::int64_t out, const UNetOptions& o) {
  maxpool_conv.push_back(core::MaxPool2d(2));
  maxpool_conv.push_back(DoubleConv(in, out, out, o));
}

namespace {

std::shared_ptr<core::Module> doubling(std::int64_t in, bool bilinear) {
  if (!bilinear) {
    return std::make_shared<core::ConvTranspose2d>(in, in / 2, core::Shape{2}, core::ConvLayerOptions{.stride = 2});
  }
  return std::make_shared<core::Upsample>(
      core::InterpolateOptions{.scale_factor = {2}, .mode = "bilinear", .align_corners = true});
}

}  // namespace

Up::Up(std::int64_t in, std::int64_t out, const UNetOptions& o)
    : up(doubling(in, o.bilinear)), conv(in, o.bilinear ? in / 2 : out, out, o) {}

Tensor Up::forward(const Tensor& x, const Tensor& before) {
  Tensor h = up->call(x);
  const std::int64_t down = before.size(2) - h.size(2), right = before.size(3) - h.size(3);
  if (down != 0 || right != 0) h = core::pad(h, {right / 2, right - right / 2, down / 2, down - down / 2});
  return conv(core::cat({before, h}, 1));
}

}  // namespace unet

UNet::UNet(const UNetOptions& o) : UNet(o, o.bilinear ? 2 : 1) {}

// Interpolation keeps the channels that a learnt step halves, so that the layers around it have half as many.
UNet::UNet(const UNetOptions& o, std::int64_t factor)
    : inc(o.n_channels, o.width, o.width, o),
      down1(o.width, 2 * o.width, o),
      down2(2 * o.width, 4 * o.width, o),
      down3(4 * o.width, 8 * o.width, o),
      down4(8 * o.width, 16 * o.width / factor, o),
      up1(16 * o.width, 8 * o.width / factor, o),
      up2(8 * o.width, 4 * o.width / factor, o),
      up3(4 * o.width, 2 * o.width / factor, o),
      up4(2 * o.width, o.width, o),
      outc(o) {}

void UNet::members(core::Members& m) {
  m.child("inc", inc).child("down1", down1).child("down2", down2).child("down3", down3).child("down4", down4);
  m.child("up1", up1).child("up2", up2).child("up3", up3).child("up4", up4).child("outc", outc);
}

Tensor UNet::forward(const Tensor& x) {
  const Tensor x1 = inc(x), x2 = down1(x1), x3 = down2(x2), x4 = down3(x3), x5 = down4(x4);
  return outc(up4(up3(up2(up1(x5, x4), x3), x2), x1));
}

}  // namespace zoo

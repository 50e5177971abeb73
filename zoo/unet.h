#pragma once
// U-Net as milesial's Pytorch-UNet has it, whose names and files are the most used: four halvings of the image, and as
// many doublings that see what was there before them. Source: Ronneberger et al. 2015. Thread safety: as core::Module.
// Use: zoo::UNet net({.n_classes = 2}); core::Tensor logits = net(images);

#include <cstdint>
#include <memory>

#include "libcore/module/conv.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct UNetOptions {
  std::int64_t n_channels = 3;
  std::int64_t n_classes = 2;
  bool bilinear = false;    ///< doubles by interpolation in the place of learnt steps
  std::int64_t width = 64;  ///< of the first layers; that of the project
  bool conv_bias = false;   ///< of the convolutions before batch norms, as the project's first release had it
};

namespace unet {

/// Convolution, batch norm and ReLU, twice. (n, in, h, w) -> (n, out, h, w).
struct DoubleConv : core::ModuleOf<DoubleConv> {
  core::Sequential double_conv;
  DoubleConv(std::int64_t in, std::int64_t middle, std::int64_t out, const UNetOptions& o);
  void members(core::Members& m) override { m.child("double_conv", double_conv); }
  core::Tensor forward(const core::Tensor& x) { return double_conv(x); }
};

/// (n, in, h, w) -> (n, out, h / 2, w / 2).
struct Down : core::ModuleOf<Down> {
  core::Sequential maxpool_conv;
  Down(std::int64_t in, std::int64_t out, const UNetOptions& o);
  void members(core::Members& m) override { m.child("maxpool_conv", maxpool_conv); }
  core::Tensor forward(const core::Tensor& x) { return maxpool_conv(x); }
};

struct Up : core::ModuleOf<Up> {
  std::shared_ptr<core::Module> up;
  DoubleConv conv;
  Up(std::int64_t in, std::int64_t out, const UNetOptions& o);
  void members(core::Members& m) override { m.child("up", up).child("conv", conv); }
  /// What is doubled, with zeros around it where it stays smaller, beside what was there before: -> (n, out, h, w) of
  /// it.
  core::Tensor forward(const core::Tensor& x, const core::Tensor& before);
};

struct OutConv : core::ModuleOf<OutConv> {
  core::Conv2d conv;
  explicit OutConv(const UNetOptions& o) : conv(o.width, o.n_classes, 1) {}
  void members(core::Members& m) override { m.child("conv", conv); }
  core::Tensor forward(const core::Tensor& x) { return conv(x); }
};

}  // namespace unet

struct UNet : core::ModuleOf<UNet> {
  unet::DoubleConv inc;
  unet::Down down1, down2, down3, down4;
  unet::Up up1, up2, up3, up4;
  unet::OutConv outc;

  explicit UNet(const UNetOptions& o);
  void members(core::Members& m) override;
  /// (n, n_channels, h, w), of 16 or more -> logits (n, n_classes, h, w).
  core::Tensor forward(const core::Tensor& x);

 private:
  UNet(const UNetOptions& o, std::int64_t factor);
};

}  // namespace zoo

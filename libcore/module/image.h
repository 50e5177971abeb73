#pragma once
// Modules that resize and rearrange images, and Unflatten. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::Upsample up({.scale_factor = {2}}); core::Tensor y = up(x);

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct Upsample : ModuleOf<Upsample> {
  InterpolateOptions options;
  explicit Upsample(InterpolateOptions given) : options(std::move(given)) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};

/// Where an image is to be upsampled to: a size, or a factor.
struct UpsamplingOptions {
  Shape size = {};
  std::vector<double> scale_factor = {};
};
struct UpsamplingNearest2d : ModuleOf<UpsamplingNearest2d> {
  InterpolateOptions options;
  explicit UpsamplingNearest2d(const UpsamplingOptions& given)
      : options({.size = given.size, .scale_factor = given.scale_factor}) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return Upsample(options).extra_repr(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};
/// With corners aligned.
struct UpsamplingBilinear2d : ModuleOf<UpsamplingBilinear2d> {
  InterpolateOptions options;
  explicit UpsamplingBilinear2d(const UpsamplingOptions& given)
      : options({.size = given.size, .scale_factor = given.scale_factor, .mode = "bilinear", .align_corners = true}) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return Upsample(options).extra_repr(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};

struct PixelShuffle : ModuleOf<PixelShuffle> {
  std::int64_t upscale_factor;
  explicit PixelShuffle(std::int64_t factor) : upscale_factor(factor) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "upscale_factor=" + std::to_string(upscale_factor); }
  Tensor forward(const Tensor& x) const { return pixel_shuffle(x, upscale_factor); }
};

struct PixelUnshuffle : ModuleOf<PixelUnshuffle> {
  std::int64_t downscale_factor;
  explicit PixelUnshuffle(std::int64_t factor) : downscale_factor(factor) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "downscale_factor=" + std::to_string(downscale_factor); }
  Tensor forward(const Tensor& x) const { return pixel_unshuffle(x, downscale_factor); }
};

struct ChannelShuffle : ModuleOf<ChannelShuffle> {
  std::int64_t groups;
  explicit ChannelShuffle(std::int64_t count) : groups(count) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "groups=" + std::to_string(groups); }
  Tensor forward(const Tensor& x) const { return channel_shuffle(x, groups); }
};

/// Makes several dimensions of one.
struct Unflatten : ModuleOf<Unflatten> {
  std::int64_t dim;
  Shape unflattened_size;
  Unflatten(std::int64_t at, const Shape& sizes) : dim(at), unflattened_size(sizes) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return x.unflatten(dim, unflattened_size); }
};

// Made once, in the source of this header.
extern template class ModuleOf<Upsample>;
extern template class ModuleOf<UpsamplingNearest2d>;
extern template class ModuleOf<UpsamplingBilinear2d>;
extern template class ModuleOf<PixelShuffle>;
extern template class ModuleOf<PixelUnshuffle>;
extern template class ModuleOf<ChannelShuffle>;
extern template class ModuleOf<Unflatten>;

}  // namespace core

// Convolutions, padding, patches, resizing.
#include "libcore/module/conv.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/image.h"
#include "libcore/module/padding.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;
using core::Size2;

AnyModule make_conv2d(Arguments& a) {
  core::Conv2dLayerOptions o;
  const std::int64_t in = a.integer(0, "in_channels"), out = a.integer(1, "out_channels");
  const Size2 kernel = a.size2(2, "kernel_size");
  o.stride = a.size2(3, "stride", 1);
  const auto padding = a.get(4, "padding");
  if (padding && padding->is_string()) {
    o.padding = core::Padding(text(*padding));
  } else if (padding && padding->is_array()) {
    o.padding = core::Padding(integers(*padding).at(0), integers(*padding).at(1));
  } else if (padding) {
    o.padding = integer(*padding);
  }
  o.dilation = a.size2(5, "dilation", 1);
  o.groups = a.integer(6, "groups", 1);
  o.bias = a.flag(7, "bias", true);
  const std::string mode = a.word(8, "padding_mode", "zeros");
  o.padding_mode = mode;
  return core::Conv2d(in, out, kernel, o);
}

template <class M>
AnyModule make_conv(Arguments& a) {
  core::ConvLayerOptions o;
  const std::int64_t in = a.integer(0, "in_channels"), out = a.integer(1, "out_channels");
  const core::Shape kernel = a.sizes(2, "kernel_size");
  o.stride = a.sizes(3, "stride");
  const auto padding = a.get(4, "padding");
  if (padding && padding->is_string()) o.rule = text(*padding);
  if (padding && padding->is_int64()) o.padding = {integer(*padding)};
  if (padding && padding->is_array()) o.padding = core::Shape(integers(*padding));
  o.dilation = a.sizes(5, "dilation");
  o.groups = a.integer(6, "groups", 1);
  o.bias = a.flag(7, "bias", true);
  o.padding_mode = a.word(8, "padding_mode", "zeros");
  return M(in, out, kernel, o);
}

template <class M>
AnyModule make_transposed(Arguments& a) {
  core::ConvLayerOptions o;
  const std::int64_t in = a.integer(0, "in_channels"), out = a.integer(1, "out_channels");
  const core::Shape kernel = a.sizes(2, "kernel_size");
  o.stride = a.sizes(3, "stride");
  o.padding = a.sizes(4, "padding");
  o.output_padding = a.sizes(5, "output_padding");
  o.groups = a.integer(6, "groups", 1);
  o.bias = a.flag(7, "bias", true);
  o.dilation = a.sizes(8, "dilation");
  o.padding_mode = a.word(9, "padding_mode", "zeros");
  return M(in, out, kernel, o);
}

template <class M>
AnyModule pad(Arguments& a) {
  return M(a.sizes(0, "padding"));
}
template <class M>
AnyModule constant_pad(Arguments& a) {
  const core::Shape pads = a.sizes(0, "padding");
  return M(pads, a.scalar(1, "value", 0));
}

core::PatchOptions patch_options(Arguments& a, std::size_t first) {
  core::PatchOptions o;
  o.dilation = a.sizes(first, "dilation");
  o.padding = a.sizes(first + 1, "padding");
  o.stride = a.sizes(first + 2, "stride");
  return o;
}

AnyModule make_unfold(Arguments& a) {
  const core::Shape kernel = a.sizes(0, "kernel_size");
  return core::Unfold(kernel, patch_options(a, 1));
}

AnyModule make_fold(Arguments& a) {
  const core::Shape output = a.sizes(0, "output_size"), kernel = a.sizes(1, "kernel_size");
  return core::Fold(output, kernel, patch_options(a, 2));
}

AnyModule make_upsample(Arguments& a) {
  core::InterpolateOptions o;
  o.size = a.sizes(0, "size");
  const auto factor = a.get(1, "scale_factor");
  if (factor) o.scale_factor = {number(*factor)};
  o.mode = a.word(2, "mode", "nearest");
  const auto corners = a.get(3, "align_corners");
  if (corners) o.align_corners = boolean(*corners);
  return core::Upsample(o);
}

void add_pads(Makers& makers) {
  makers["ZeroPad1d"] = pad<core::ZeroPad1d>;
  makers["ZeroPad2d"] = pad<core::ZeroPad2d>;
  makers["ZeroPad3d"] = pad<core::ZeroPad3d>;
  makers["ReflectionPad1d"] = pad<core::ReflectionPad1d>;
  makers["ReflectionPad2d"] = pad<core::ReflectionPad2d>;
  makers["ReflectionPad3d"] = pad<core::ReflectionPad3d>;
  makers["ReplicationPad1d"] = pad<core::ReplicationPad1d>;
  makers["ReplicationPad2d"] = pad<core::ReplicationPad2d>;
  makers["ReplicationPad3d"] = pad<core::ReplicationPad3d>;
  makers["CircularPad1d"] = pad<core::CircularPad1d>;
  makers["CircularPad2d"] = pad<core::CircularPad2d>;
  makers["CircularPad3d"] = pad<core::CircularPad3d>;
  makers["ConstantPad1d"] = constant_pad<core::ConstantPad1d>;
  makers["ConstantPad2d"] = constant_pad<core::ConstantPad2d>;
  makers["ConstantPad3d"] = constant_pad<core::ConstantPad3d>;
}

}  // namespace

void add_conv_makers(Makers& makers) {
  makers["Conv2d"] = make_conv2d;
  makers["Conv1d"] = make_conv<core::Conv1d>;
  makers["Conv3d"] = make_conv<core::Conv3d>;
  makers["ConvTranspose1d"] = make_transposed<core::ConvTranspose1d>;
  makers["ConvTranspose2d"] = make_transposed<core::ConvTranspose2d>;
  makers["ConvTranspose3d"] = make_transposed<core::ConvTranspose3d>;
  makers["Unfold"] = make_unfold;
  makers["Fold"] = make_fold;
  makers["Upsample"] = make_upsample;
  makers["PixelShuffle"] = [](Arguments& a) -> AnyModule { return core::PixelShuffle(a.integer(0, "upscale_factor")); };
  makers["PixelUnshuffle"] = [](Arguments& a) -> AnyModule {
    return core::PixelUnshuffle(a.integer(0, "downscale_factor"));
  };
  makers["ChannelShuffle"] = [](Arguments& a) -> AnyModule { return core::ChannelShuffle(a.integer(0, "groups")); };
  add_pads(makers);
}

}  // namespace test

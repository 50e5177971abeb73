#include "libcore/module/conv_nd.h"

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/module/conv.h"
#include "libcore/module/init.h"
#include "libcore/module/print.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

using detail::python_sizes;
using detail::spread;

void check(const ConvLayerOptions& o, std::int64_t in, std::int64_t out, const Shape& stride) {
  if (o.groups <= 0) detail::fail_value("groups must be a positive integer");
  if (in % o.groups != 0) detail::fail_value("in_channels must be divisible by groups");
  if (out % o.groups != 0) detail::fail_value("out_channels must be divisible by groups");
  if (o.rule.empty()) return;
  if (Padding(o.rule).is_same() && stride != Shape(stride.size(), 1)) {
    detail::fail_value("padding='same' is not supported for strided convolutions");
  }
}

std::string patch_text(const Shape& kernel, const PatchOptions& o) {
  return "kernel_size=" + python_sizes(kernel) + ", dilation=" + python_sizes(spread(o.dilation, 1, 1)) +
         ", padding=" + python_sizes(spread(o.padding, 1, 0)) + ", stride=" + python_sizes(spread(o.stride, 1, 1));
}

void put_into_format(const Parameter& weight, MemoryFormat format) {
  weight.set_data(weight.detach().clone(format));
}

}  // namespace

ConvState::ConvState(std::size_t rank, Kind kind, Channels channels, const Shape& kernel, const ConvLayerOptions& given)
    : in_channels(channels.in),
      out_channels(channels.out),
      kernel_size(spread(kernel, rank, 1)),
      stride(spread(given.stride, rank, 1)),
      padding(spread(given.padding, rank, 0)),
      dilation(spread(given.dilation, rank, 1)),
      output_padding(spread(given.output_padding, rank, 0)),
      groups(given.groups),
      rule(given.rule),
      padding_mode(parse_padding_mode(given.padding_mode)) {
  check(given, channels.in, channels.out, stride);
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  const bool turned = kind == Kind::transposed;
  if (turned && padding_mode != PaddingMode::zeros) {
    detail::fail_value("Only \"zeros\" padding mode is supported for ConvTranspose" + std::to_string(rank) + "d");
  }
  Shape sizes = turned ? Shape{channels.in, channels.out / groups} : Shape{channels.out, channels.in / groups};
  for (const std::int64_t size : kernel_size) sizes.push_back(size);
  weight = Parameter(empty(sizes, made));
  if (given.bias) bias = Parameter(empty({channels.out}, made));
  reset_parameters();
}

void ConvState::reset_parameters() {
  init::default_weight_and_bias_(weight, bias);
}

void ConvState::list(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias);
}

std::string ConvState::describe() const {
  const auto tuple = [](const Shape& sizes) { return detail::python_tuple(sizes.to_vector()); };
  const std::size_t rank = kernel_size.size();
  std::string text = std::to_string(in_channels) + ", " + std::to_string(out_channels) +
                     ", kernel_size=" + tuple(kernel_size) + ", stride=" + tuple(stride);
  if (!rule.empty()) {
    text += ", padding=" + rule;
  } else if (padding != Shape(rank, 0)) {
    text += ", padding=" + tuple(padding);
  }
  if (dilation != Shape(rank, 1)) text += ", dilation=" + tuple(dilation);
  if (output_padding != Shape(rank, 0)) text += ", output_padding=" + tuple(output_padding);
  if (groups != 1) text += ", groups=" + std::to_string(groups);
  if (!bias.defined()) text += ", bias=False";
  if (padding_mode != PaddingMode::zeros) text += ", padding_mode=" + std::string(name(padding_mode));
  return text;
}

ConvOptions ConvState::plain_options() const {
  return {stride, padding, rule, dilation, groups};
}

ConvTransposeOptions ConvState::transposed_options() const {
  return {stride, padding, output_padding, groups, dilation};
}

Tensor ConvState::bordered(const Tensor& x, ConvOptions& options) const {
  if (padding_mode == PaddingMode::zeros) return x;
  Shape pads;
  for (std::size_t i = kernel_size.size(); i-- > 0;) {
    const std::int64_t total = dilation[i] * (kernel_size[i] - 1);
    const bool same = rule == "same";
    pads.push_back(same ? total / 2 : padding[i]);
    pads.push_back(same ? total - total / 2 : padding[i]);
  }
  options.padding = {};
  options.rule = {};
  return pad(x, pads, padding_mode);
}

Tensor Conv1d::forward(const Tensor& x) const {
  ConvOptions options = plain_options();
  const Tensor wide = bordered(x, options);
  return conv1d(wide, weight, bias, options);
}

Tensor Conv3d::forward(const Tensor& x) const {
  ConvOptions options = plain_options();
  const Tensor wide = bordered(x, options);
  return conv3d(wide, weight, bias, options);
}

std::string Unfold::extra_repr() const {
  return patch_text(kernel_size, options);
}

std::string Fold::extra_repr() const {
  return "output_size=" + python_sizes(output_size) + ", " + patch_text(kernel_size, options);
}

void convert_conv2d_weight_memory_format(Module& module, MemoryFormat format) {
  for (Module* each : module.modules()) {
    if (auto* conv = dynamic_cast<Conv2d*>(each)) put_into_format(conv->weight, format);
    if (auto* conv = dynamic_cast<ConvTranspose2d*>(each)) put_into_format(conv->weight, format);
  }
}

void convert_conv3d_weight_memory_format(Module& module, MemoryFormat format) {
  for (Module* each : module.modules()) {
    if (auto* conv = dynamic_cast<Conv3d*>(each)) put_into_format(conv->weight, format);
    if (auto* conv = dynamic_cast<ConvTranspose3d*>(each)) put_into_format(conv->weight, format);
  }
}

template class ModuleOf<Conv1d>;
template class ModuleOf<Conv3d>;
template class ModuleOf<ConvTranspose1d>;
template class ModuleOf<ConvTranspose2d>;
template class ModuleOf<ConvTranspose3d>;
template class ModuleOf<Unfold>;
template class ModuleOf<Fold>;

}  // namespace core

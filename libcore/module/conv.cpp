#include "libcore/module/conv.h"

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/module/init.h"
#include "libcore/module/print.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

void check(const Conv2dLayerOptions& o, std::int64_t in, std::int64_t out) {
  if (o.groups <= 0) detail::fail_value("groups must be a positive integer");
  if (in % o.groups != 0) detail::fail_value("in_channels must be divisible by groups");
  if (out % o.groups != 0) detail::fail_value("out_channels must be divisible by groups");
  if (o.padding.is_same() && !(o.stride == Size2(1)))
    detail::fail_value("padding='same' is not supported for strided convolutions");
}

/// Zeros before and after, for one dimension.
struct Pads {
  std::int64_t before, after;
};

Pads pads_of(const Padding& padding, std::int64_t given, std::int64_t kernel, std::int64_t dilation) {
  if (!padding.is_same()) return {given, given};
  const std::int64_t total = dilation * (kernel - 1);
  return {total / 2, total - total / 2};
}

}  // namespace

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Size2 kernel, const Conv2dLayerOptions& given)
    : in_channels(in),
      out_channels(out),
      kernel_size(kernel),
      options{given.stride, given.padding, given.dilation, given.groups},
      padding_mode(parse_padding_mode(given.padding_mode)) {
  check(given, in, out);
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  weight = Parameter(empty({out, in / given.groups, kernel.h(), kernel.w()}, made));
  if (given.bias) bias = Parameter(empty({out}, made));
  reset_parameters();
}

void Conv2d::reset_parameters() {
  init::default_weight_and_bias_(weight, bias);
}

void Conv2d::members(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias);
}

std::string Conv2d::extra_repr() const {
  std::string text = std::to_string(in_channels) + ", " + std::to_string(out_channels) +
                     ", kernel_size=" + kernel_size.tuple() + ", stride=" + options.stride.tuple();
  if (options.padding.is_rule()) {
    text += std::string(", padding=") + (options.padding.is_same() ? "same" : "valid");
  } else if (!(options.padding.amount() == Size2(0))) {
    text += ", padding=" + options.padding.amount().tuple();
  }
  if (!(options.dilation == Size2(1))) text += ", dilation=" + options.dilation.tuple();
  if (options.groups != 1) text += ", groups=" + std::to_string(options.groups);
  if (!bias.defined()) text += ", bias=False";
  if (padding_mode != PaddingMode::zeros) text += ", padding_mode=" + std::string(name(padding_mode));
  return text;
}

Tensor Conv2d::forward(const Tensor& x) const {
  if (padding_mode == PaddingMode::zeros) return conv2d(x, weight, bias, options);
  const Size2 amount = options.padding.amount();
  const Pads rows = pads_of(options.padding, amount.h(), kernel_size.h(), options.dilation.h());
  const Pads columns = pads_of(options.padding, amount.w(), kernel_size.w(), options.dilation.w());
  const Tensor wide = pad(x, {columns.before, columns.after, rows.before, rows.after}, padding_mode);
  return conv2d(wide, weight, bias, {options.stride, 0, options.dilation, options.groups});
}

MaxPool2d::MaxPool2d(Size2 kernel, const MaxPool2dOptions& given) : kernel_size(kernel), options(given) {
  if (!options.stride.given()) options.stride = kernel;
}

std::string MaxPool2d::extra_repr() const {
  return "kernel_size=" + kernel_size.str() + ", stride=" + options.stride.str() +
         ", padding=" + options.padding.str() + ", dilation=" + options.dilation.str() +
         ", ceil_mode=" + detail::python_bool(options.ceil_mode);
}

AvgPool2d::AvgPool2d(Size2 kernel, const AvgPool2dOptions& given) : kernel_size(kernel), options(given) {
  if (!options.stride.given()) options.stride = kernel;
}

std::string AvgPool2d::extra_repr() const {
  return "kernel_size=" + kernel_size.str() + ", stride=" + options.stride.str() + ", padding=" + options.padding.str();
}

std::string AdaptiveAvgPool2d::extra_repr() const {
  const auto text = [](const std::optional<std::int64_t>& size) { return size ? std::to_string(*size) : "None"; };
  if (!output_size.pair) return "output_size=" + text(output_size.h);
  return "output_size=(" + text(output_size.h) + ", " + text(output_size.w) + ")";
}

template class ModuleOf<Conv2d>;
template class ModuleOf<MaxPool2d>;
template class ModuleOf<AvgPool2d>;
template class ModuleOf<AdaptiveAvgPool2d>;

}  // namespace core

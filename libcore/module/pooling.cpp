#include "libcore/module/pooling.h"

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/text.h"
#include "libcore/module/print.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::python_bool;
using detail::python_sizes;
using detail::spread;

std::string max_text(const Shape& kernel, const MaxPoolOptions& o) {
  return "kernel_size=" + python_sizes(kernel) + ", stride=" + python_sizes(o.stride.empty() ? kernel : o.stride) +
         ", padding=" + python_sizes(spread(o.padding, 1, 0)) + ", dilation=" + python_sizes(spread(o.dilation, 1, 1)) +
         ", ceil_mode=" + python_bool(o.ceil_mode);
}

std::string tuple(const Shape& sizes) {
  return detail::python_tuple(sizes.to_vector());
}

void check_fractional_layer(const FractionalPoolOptions& o, const char* name) {
  if (o.output_size.empty() && o.output_ratio.empty()) {
    detail::fail_value(std::string(name) + " requires specifying either an output size, or a pooling ratio");
  }
  if (!o.output_size.empty() && !o.output_ratio.empty()) {
    detail::fail_value("only one of output_size and output_ratio may be specified");
  }
  std::vector<std::string> ratios;
  for (const double ratio : o.output_ratio) ratios.push_back(python_float(ratio));
  for (const double ratio : o.output_ratio) {
    if (ratio > 0 && ratio < 1) continue;
    detail::fail_value("output_ratio must be between 0 and 1 (got " +
                       (ratios.size() == 1 ? ratios[0] : "(" + join(ratios, ", ") + ")") + ")");
  }
}

}  // namespace

std::string detail::adaptive_text(const AdaptiveSizes& sizes) {
  const auto one = [](const std::optional<std::int64_t>& size) { return size ? std::to_string(*size) : "None"; };
  if (sizes.size() == 1) return "output_size=" + one(sizes[0]);
  std::string text = "output_size=(";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + one(sizes[i]);
  return text + ")";
}

std::string MaxPool1d::extra_repr() const {
  return max_text(kernel_size, options);
}

std::string MaxPool3d::extra_repr() const {
  return max_text(kernel_size, options);
}

std::string AvgPool1d::extra_repr() const {
  return "kernel_size=" + tuple(kernel_size) +
         ", stride=" + tuple(options.stride.empty() ? kernel_size : options.stride) +
         ", padding=" + tuple(spread(options.padding, 1, 0));
}

std::string AvgPool3d::extra_repr() const {
  return "kernel_size=" + python_sizes(kernel_size) +
         ", stride=" + python_sizes(options.stride.empty() ? kernel_size : options.stride) +
         ", padding=" + python_sizes(spread(options.padding, 1, 0));
}

std::string LpPoolState::describe() const {
  return "norm_type=" + detail::python_number(norm_type) + ", kernel_size=" + python_sizes(kernel_size) +
         ", stride=" + (options.stride.empty() ? "None" : python_sizes(options.stride)) +
         ", ceil_mode=" + python_bool(options.ceil_mode);
}

UnpoolState::UnpoolState(std::size_t rank, const Shape& kernel, const Shape& step, const Shape& pads)
    : kernel_size(spread(kernel, rank, 1)),
      stride(step.empty() ? kernel_size : spread(step, rank, 1)),
      padding(spread(pads, rank, 0)) {}

std::string UnpoolState::describe() const {
  return "kernel_size=" + tuple(kernel_size) + ", stride=" + tuple(stride) + ", padding=" + tuple(padding);
}

Tensor UnpoolState::unpooled(const Tensor& x, const Tensor& indices, const Shape& output_size) const {
  const std::size_t rank = kernel_size.size();
  Shape sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t pooled = x.size(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(rank));
    sizes.push_back((pooled - 1) * stride[i] + kernel_size[i] - 2 * padding[i]);
  }
  for (std::size_t i = 0; i < rank && !output_size.empty(); ++i) {
    sizes[i] = output_size[output_size.size() - rank + i];
  }
  return max_unpool(x, indices, sizes);
}

FractionalMaxPool2d::FractionalMaxPool2d(const Shape& kernel, const FractionalPoolOptions& given)
    : kernel_size(kernel), options(given) {
  check_fractional_layer(given, "FractionalMaxPool2d");
}

FractionalMaxPool3d::FractionalMaxPool3d(const Shape& kernel, const FractionalPoolOptions& given)
    : kernel_size(kernel), options(given) {
  check_fractional_layer(given, "FractionalMaxPool3d");
}

template class ModuleOf<MaxPool1d>;
template class ModuleOf<MaxPool3d>;
template class ModuleOf<AvgPool1d>;
template class ModuleOf<AvgPool3d>;
template class ModuleOf<AdaptiveAvgPool1d>;
template class ModuleOf<AdaptiveAvgPool3d>;
template class ModuleOf<AdaptiveMaxPool1d>;
template class ModuleOf<AdaptiveMaxPool2d>;
template class ModuleOf<AdaptiveMaxPool3d>;
template class ModuleOf<LPPool1d>;
template class ModuleOf<LPPool2d>;
template class ModuleOf<LPPool3d>;
template class ModuleOf<MaxUnpool1d>;
template class ModuleOf<MaxUnpool2d>;
template class ModuleOf<MaxUnpool3d>;
template class ModuleOf<FractionalMaxPool2d>;
template class ModuleOf<FractionalMaxPool3d>;

}  // namespace core

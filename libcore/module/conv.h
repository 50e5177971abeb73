#pragma once
// Conv2d and 2-D pooling modules. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::Conv2d conv(1, 6, 5, {.padding = 2}); core::Tensor y = conv(x);

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/module/module.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct Conv2dLayerOptions {
  Size2 stride = 1;
  Padding padding = {};
  Size2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::string_view padding_mode = "zeros";
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// x: (N, in, H, W) or (in, H, W); weight: (out, in / groups, kh, kw); y: (N, out, H', W').
struct Conv2d : ModuleOf<Conv2d> {
  std::int64_t in_channels;
  std::int64_t out_channels;
  Size2 kernel_size;
  Conv2dOptions options;
  PaddingMode padding_mode;
  Parameter weight;
  Parameter bias;  ///< undefined when there is none

  /// Errors (value): PyTorch's texts for groups, padding and padding_mode.
  Conv2d(std::int64_t in, std::int64_t out, Size2 kernel, const Conv2dLayerOptions& given = {});
  /// Stride and padding by place, as in Python: Conv2d(3, 64, 7, 2, 3).
  template <std::integral Stride>
  Conv2d(std::int64_t in, std::int64_t out, Size2 kernel, Stride stride, std::int64_t padding = 0)
      : Conv2d(in, out, kernel, Conv2dLayerOptions{.stride = stride, .padding = padding}) {}
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct MaxPool2d : ModuleOf<MaxPool2d> {
  Size2 kernel_size;
  MaxPool2dOptions options;

  explicit MaxPool2d(Size2 kernel, const MaxPool2dOptions& given = {});
  template <std::integral Stride>
  MaxPool2d(Size2 kernel, Stride stride, std::int64_t padding = 0)
      : MaxPool2d(kernel, MaxPool2dOptions{.stride = stride, .padding = padding}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return max_pool2d(x, kernel_size, options); }
};

struct AvgPool2d : ModuleOf<AvgPool2d> {
  Size2 kernel_size;
  AvgPool2dOptions options;

  explicit AvgPool2d(Size2 kernel, const AvgPool2dOptions& given = {});
  template <std::integral Stride>
  AvgPool2d(Size2 kernel, Stride stride, std::int64_t padding = 0)
      : AvgPool2d(kernel, AvgPool2dOptions{.stride = stride, .padding = padding}) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, kernel_size, options); }
};

struct AdaptiveAvgPool2d : ModuleOf<AdaptiveAvgPool2d> {
  AdaptiveSize output_size;

  explicit AdaptiveAvgPool2d(const AdaptiveSize& output) : output_size(output) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool2d(x, output_size); }
};

// Made once, in the source of this header.
extern template class ModuleOf<Conv2d>;
extern template class ModuleOf<MaxPool2d>;
extern template class ModuleOf<AvgPool2d>;
extern template class ModuleOf<AdaptiveAvgPool2d>;

}  // namespace core

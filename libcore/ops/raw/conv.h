#pragma once
// Convolutions without history: checks with PyTorch's texts, then the backend's slot. Thread safety: pure functions.
// Use: core::Tensor y = core::raw::convolution(x, w, b, core::raw::conv_plan(x, w, b, {}, 2));

#include <cstdint>

#include "libcore/backend/nn_table.h"
#include "libcore/ops/conv.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

/// What is known about a convolution's weight: `again`, that it will be used in this state again, so that what its
/// kernel makes of it is worth keeping.
enum class WeightUse { once, again };

/// Convolutions of planes. Where `pad_bottom` or `pad_right` is negative the convolution sees nothing of so many of the
/// last rows or columns of its images; kernels meet none such.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dSizes& sizes,
              WeightUse use = WeightUse::once);
Tensor conv2d_input_grad(const Tensor& output_grad, const Tensor& weight, const Conv2dSizes& sizes);

/// PyTorch's rule: channels last where x or the weight lies so, but not of f64, and where there are kernels for it.
ImageOrder conv2d_order(const Tensor& x, const Tensor& weight);

struct WeightGrads {
  Tensor weight;
  Tensor bias;
};

/// `bias` is undefined unless asked for.
WeightGrads conv2d_weight_grad(const Tensor& output_grad, const Tensor& x, const Conv2dSizes& sizes, bool with_bias);

/// A convolution of one to three dimensions: that of planes, and what the third dimension adds. `depth` is 1 in all its
/// sizes below three dimensions; one dimension is planes of height 1.
struct ConvPlan {
  std::size_t rank = 2;  ///< 1, 2 or 3
  Conv2dSizes plane{};
  std::int64_t in_d = 1, out_d = 1, kernel_d = 1, stride_d = 1, pad_front = 0, dilation_d = 1;

  WeightUse weight_use = WeightUse::once;

  Shape input_sizes() const;
  Shape output_sizes() const;
  Shape weight_sizes() const;
};

/// The maps of conv2d for any plan.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvPlan& plan);
Tensor convolution_input_grad(const Tensor& output_grad, const Tensor& weight, const ConvPlan& plan);
WeightGrads convolution_weight_grad(const Tensor& output_grad, const Tensor& x, const ConvPlan& plan, bool with_bias);

/// Checks a convolution, with PyTorch's texts, and gives all its sizes. x has a batch dimension; `rank` counts its
/// dimensions behind batch and channels.
ConvPlan conv_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                   std::size_t rank);

/// The convolution whose input gradient is this transposed one: x is its output, the result its input.
ConvPlan transposed_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
                         std::size_t rank);

}  // namespace core::raw

#pragma once
// Checks of convolutions of any rank, with PyTorch's texts. For autograd/nn_conv.cpp alone; users call conv1d and its
// siblings. Thread safety: pure functions. Use: raw::ConvPlan plan = raw::conv_plan(batch, weight, bias, options, 3);

#include "libcore/tensor/conv_ops.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core::raw {

/// x has a batch dimension; `rank` counts its dimensions behind batch and channels.
ConvPlan conv_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                   std::size_t rank);
/// The convolution whose input gradient is this transposed one: x is its output, the result its input.
ConvPlan transposed_plan(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
                         std::size_t rank);

}  // namespace core::raw

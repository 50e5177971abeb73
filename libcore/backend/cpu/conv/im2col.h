#pragma once
// Convolution of few pixels by many weights as products of matrices, on images in blocks. There the time goes into
// moving the weights: a product reads them, or writes their gradient, once and in their ordinary order, where oneDNN's
// convolutions want them reordered first. As the deep layers of a network in training.
// Thread safety: all functions. For blocked.cpp alone: if (is_for_gemm(p.sizes)) return gemm_conv(p);

#include "libcore/backend/image_table.h"

namespace core::cpu {

bool is_for_gemm(const Conv2dSizes& sizes);

/// REQUIRES: is_for_gemm(p.sizes), and the weight in ordinary order.
void gemm_conv(const ImageConv& p);
void gemm_conv_input_grad(const ImageConvInputGrad& p);
void gemm_conv_weight_grad(const ImageConvWeightGrad& p);

}  // namespace core::cpu

#pragma once
// Convolutions of 1 x 1 over f32 images in ordinary order (is_pointwise() of image_order.h): a product of matrices for
// each image, which stays as it lies.
// Thread safety: pure functions. For dense_onednn.cpp; users call core::conv2d.

#include "libcore/backend/nn_table.h"

namespace core::cpu {

void pointwise_conv(const Conv2dParams& p);
void pointwise_input_grad(const Conv2dInputGradParams& p);
void pointwise_weight_grad(const Conv2dWeightGradParams& p);

}  // namespace core::cpu

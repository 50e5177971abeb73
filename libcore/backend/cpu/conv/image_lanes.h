#pragma once
// Convolutions of few channels over many images in ordinary order: sixteen images are computed side by side, one in
// each lane, so that no lane is empty whatever the number of channels, and no product is taken with a border. Compiled
// for AVX-512 alone. Thread safety: pure functions. For dense_onednn.cpp: avx512::lanes_conv(p);

#include "libcore/backend/nn_table.h"

namespace core::cpu {

namespace avx512 {
// REQUIRES: f32, one group, strides and dilations of 1, images in whole sixteens. Each number is summed in an order
// that depends on the sizes alone.
void lanes_conv(const Conv2dParams& p);
void lanes_input_grad(const Conv2dInputGradParams& p);
void lanes_weight_grad(const Conv2dWeightGradParams& p);
}  // namespace avx512

}  // namespace core::cpu

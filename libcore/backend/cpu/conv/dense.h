#pragma once
// 2-D convolution on the CPU: f32 through oneDNN (dense_f32.cpp), f64 through OpenBLAS (dense_f64.cpp).
// Thread safety: all functions. For the table alone; users call core::conv2d.

#include "libcore/backend/nn_table.h"

namespace core::cpu {

void conv2d_f32(const Conv2dParams& p);
void conv2d_input_grad_f32(const Conv2dInputGradParams& p);
void conv2d_weight_grad_f32(const Conv2dWeightGradParams& p);

void conv2d_f64(const Conv2dParams& p);
void conv2d_input_grad_f64(const Conv2dInputGradParams& p);
void conv2d_weight_grad_f64(const Conv2dWeightGradParams& p);

}  // namespace core::cpu

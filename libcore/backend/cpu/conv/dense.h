#pragma once
// 2-D convolution on the CPU: f32, and bf16 where the processor multiplies it, through oneDNN (dense_onednn.cpp), f64
// through OpenBLAS (dense_f64.cpp), other numbers of 16 bits as f32, some images at a time (dense_narrow.cpp).
// Thread safety: all functions. For the table alone; users call core::conv2d.

#include "libcore/backend/nn_table.h"

namespace core::cpu {

void conv2d_f32(const Conv2dParams& p);
void conv2d_input_grad_f32(const Conv2dInputGradParams& p);
void conv2d_weight_grad_f32(const Conv2dWeightGradParams& p);

void conv2d_f64(const Conv2dParams& p);
void conv2d_input_grad_f64(const Conv2dInputGradParams& p);
void conv2d_weight_grad_f64(const Conv2dWeightGradParams& p);

void conv2d_f16(const Conv2dParams& p);
void conv2d_input_grad_f16(const Conv2dInputGradParams& p);
void conv2d_weight_grad_f16(const Conv2dWeightGradParams& p);

void conv2d_bf16(const Conv2dParams& p);
void conv2d_input_grad_bf16(const Conv2dInputGradParams& p);
void conv2d_weight_grad_bf16(const Conv2dWeightGradParams& p);

}  // namespace core::cpu

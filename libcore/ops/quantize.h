#pragma once
// Rounding to the steps of 8-bit (or other) integers and back, as training for quantised weights has it. As
// torch.fake_quantize_X. Thread safety: pure functions. Use: core::Tensor y = core::fake_quantize_per_tensor_affine(x,
// 0.1, 0, -128, 127);

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core {

/// (clamp(round(x / scale + zero_point), quant_min, quant_max) - zero_point) * scale; the gradient goes through where
/// nothing was cut. Errors(runtime): "`zero_point` must be between `quant_min` and `quant_max`.".
Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, std::int64_t zero_point, std::int64_t quant_min,
                                       std::int64_t quant_max);

/// The same with a scale (float32) and a zero point (int32 or float) for each slice along axis.
/// Errors(runtime): PyTorch's texts for other dtypes and sizes.
Tensor fake_quantize_per_channel_affine(const Tensor& x, const Tensor& scale, const Tensor& zero_point,
                                        std::int64_t axis, std::int64_t quant_min, std::int64_t quant_max);

}  // namespace core

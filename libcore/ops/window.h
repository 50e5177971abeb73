#pragma once
// Windows for signals, as torch.X_window: `periodic` ones are for stft(), the others are symmetric. Values in `dtype`,
// the default float type unless given. Thread safety: pure functions. Errors(runtime): "hann_window requires
// non-negative window_length, got window_length=-1", "hann_window expects floating point dtypes, got: int64".
// Use: core::Tensor window = core::hann_window(400);

#include <cstdint>

#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor hann_window(std::int64_t window_length, bool periodic = true, const TensorOptions& options = {});
/// alpha - beta * cos(2 pi n / N)
Tensor hamming_window(std::int64_t window_length, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      const TensorOptions& options = {});
Tensor blackman_window(std::int64_t window_length, bool periodic = true, const TensorOptions& options = {});
/// A triangle.
Tensor bartlett_window(std::int64_t window_length, bool periodic = true, const TensorOptions& options = {});
Tensor kaiser_window(std::int64_t window_length, bool periodic = true, double beta = 12,
                     const TensorOptions& options = {});

}  // namespace core

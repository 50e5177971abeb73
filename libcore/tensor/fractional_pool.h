#pragma once
// Max pooling over windows that stand at random steps, as torch.nn.functional.fractional_max_pool2d and 3d.
// Thread safety: pure functions; they draw from the default generator unless samples are given.
// Use: core::Tensor y = core::fractional_max_pool2d(x, {2}, {.output_size = {5}}).values;
// Source: Graham, "Fractional max-pooling", 2015.

#include <vector>

#include "libcore/tensor/ops.h"

namespace core {

struct FractionalPoolOptions {
  Shape output_size = {};                 ///< one number for all dimensions or one each; either this ...
  std::vector<double> output_ratio = {};  ///< ... or this part of the input's size, between 0 and 1
  Tensor random_samples = {};             ///< (N, C, dimensions) in [0, 1)
};
/// x: (N, C, H, W) or (C, H, W). Indices are positions h * W + w.
/// Errors(runtime): "fractional_max_pool2d(): pool height 2 too large relative to input height 5".
ValuesIndices fractional_max_pool2d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options);
/// x: (N, C, T, H, W) or (C, T, H, W). Indices are positions (t * H + h) * W + w.
ValuesIndices fractional_max_pool3d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options);

namespace detail {
/// Errors(value): PyTorch's texts unless just one of size and ratio is given.
void check_fractional(const FractionalPoolOptions& options, const char* name);
}  // namespace detail

}  // namespace core

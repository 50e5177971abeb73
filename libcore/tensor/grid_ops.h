#pragma once
// Sampling images at given places, as torch.nn.functional. Thread safety: pure functions.
// Use: core::Tensor turned = core::grid_sample(x, core::affine_grid(theta, x.sizes(), false), {.align_corners =
// false});

#include <optional>
#include <string>

#include "libcore/tensor/ops.h"

namespace core {

struct GridSampleOptions {
  std::string mode = "bilinear";           ///< nearest, bicubic
  std::string padding_mode = "zeros";      ///< border, reflection
  std::optional<bool> align_corners = {};  ///< whether -1 and 1 are the middles of the outermost elements, or edges
};
/// Values of x at the places in grid, from -1 to 1 in each dimension, the last dimension of x first. x: (N, C, H, W),
/// grid: (N, H', W', 2), y: (N, C, H', W'); with depth alike. Warns as PyTorch where align_corners is not given.
/// Errors(value, runtime): PyTorch's texts.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
/// The grid for grid_sample() that affine maps give. theta: (N, 2, 3) for a size (N, C, H, W), (N, 3, 4) with depth.
Tensor affine_grid(const Tensor& theta, const Shape& size, std::optional<bool> align_corners = {});

}  // namespace core

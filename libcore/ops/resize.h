#pragma once
// Resizing and rearranging images, and sampling them at given places, as torch.nn.functional. Thread safety: pure
// functions. Use: core::Tensor y = core::interpolate(x, {.scale_factor = {2}, .mode = "bilinear"});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct InterpolateOptions {
  Shape size = {};                        ///< of the output; one number for all dimensions
  std::vector<double> scale_factor = {};  ///< or this times the input
  std::string mode = "nearest";           ///< nearest-exact, linear, bilinear, bicubic, trilinear, area
  std::optional<bool> align_corners = {};
  bool recompute_scale_factor = false;
  bool antialias = false;  ///< bilinear and bicubic: where the image shrinks, the filter grows with it
};

/// x: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
/// Errors(value): PyTorch's texts, such as "either size or scale_factor should be defined".
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// (*, C * r^2, H, W) to (*, C, H * r, W * r), and back.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);

/// Channels of each group are dealt out in turn. x: (N, C, ...).
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

struct GridSampleOptions {
  std::string mode = "bilinear";           ///< nearest, bicubic
  std::string padding_mode = "zeros";      ///< border, reflection
  std::optional<bool> align_corners = {};  ///< whether -1 and 1 are the middles of the outermost elements, or edges
};

/// Values of x at the places in grid, from -1 to 1 in each dimension, the last dimension of x first. x: (N, C, H, W),
/// grid: (N, H', W', 2), y: (N, C, H', W'); with depth alike. Warns as PyTorch where align_corners is not given.
/// Errors(value, runtime): PyTorch's texts.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

/// grid_sample() by numbers: mode 0 bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection.
Tensor grid_sampler(const Tensor& x, const Tensor& grid, std::int64_t mode, std::int64_t padding, bool align_corners);

/// The grid for grid_sample() that affine maps give. theta: (N, 2, 3) for a size (N, C, H, W), (N, 3, 4) with depth.
Tensor affine_grid(const Tensor& theta, const Shape& size, std::optional<bool> align_corners = {});

/// The older names of interpolate(), which torch.nn.functional still has; the last one with the corners aligned.
inline Tensor upsample(const Tensor& x, const InterpolateOptions& options) {
  return interpolate(x, options);
}
Tensor upsample_nearest(const Tensor& x, const InterpolateOptions& options);
Tensor upsample_bilinear(const Tensor& x, const InterpolateOptions& options);

}  // namespace core

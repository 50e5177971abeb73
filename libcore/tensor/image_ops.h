#pragma once
// Resizing and rearranging images, as torch.nn.functional. Thread safety: pure functions.
// Use: core::Tensor y = core::interpolate(x, {.scale_factor = {2}, .mode = "bilinear"});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/tensor/ops.h"

namespace core {

struct InterpolateOptions {
  Shape size = {};                        ///< of the output; one number for all dimensions
  std::vector<double> scale_factor = {};  ///< or this times the input
  std::string mode = "nearest";           ///< nearest-exact, linear, bilinear, bicubic, trilinear, area
  std::optional<bool> align_corners = {};
  bool recompute_scale_factor = false;
};
/// x: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
/// Errors(value): PyTorch's texts, such as "either size or scale_factor should be defined".
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// (*, C * r^2, H, W) to (*, C, H * r, W * r), and back.
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);
/// Channels of each group are dealt out in turn. x: (N, C, ...).
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

}  // namespace core
